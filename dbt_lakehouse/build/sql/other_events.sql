{#
  The events of new payloads. The events that change logs take whatever their contents (`is_taken`)
  are aggregated: `events` is the number that a row stands for, of the same topic, table and
  operation. `payloads` is the number of payloads whose first event is among these.

  Arguments:
      payloads: a relation of them, with `format`.
      format: the SQL of that format.
      look: the name of the function that reads payloads.
      corrections: the relation of log times that differ from the payload's timestamp, or none.
      taken: the events that change logs take, a TakenEvents.
#}
with decoded as (
    select * from {{ payload_parts.events_in(
        payloads, format, look, event_fields + ['is_taken', 'events', 'payloads'], of_topic=true
    ) | indent }}
),

timed as (
    select
        decoded.topic,
        decoded.partition,
        decoded.offset,
        decoded.event_index,
        decoded.timestamp,
        {{
            'coalesce(corrections.log_time, decoded.timestamp)' if corrections
            else 'decoded.timestamp'
        }} as log_time,
        decoded.format,
        {{ event_fields[1:] | each('decoded.{}') | lines | indent(8) }},
        cast(null as string) as added_by,
        decoded.is_taken,
        decoded.events,
        decoded.payloads
    from decoded
    {% if corrections %}
    left join {{ corrections }} as corrections
        on
            decoded.topic = corrections.topic
            and decoded.partition = corrections.partition
            and decoded.offset = corrections.offset
    {% endif %}
),

final as (
    select
        * except (is_taken),
        is_taken{{ ' or ' ~ taken.others if taken.others != 'false' }} as is_taken
    from timed
)

select * from final
