{#
  The events that could not be decoded, with the bytes of their payloads.

  Arguments:
      events: the new rows of other_events.
      payloads: all of bronze.
      near: a condition that the payloads of these events meet, or none.
#}
with invalid_events as (
    select
        topic,
        partition,
        offset,
        event_index,
        timestamp,
        format,
        error_code,
        error_detail
    from {{ events }}
    where operation = 'invalid'
),

raw_payloads as (
    select * from {{ payloads }}
    {% if near is not none %}
    where
        {{ near }}
    {% endif %}
),

final as (
    select
        invalid_events.topic,
        invalid_events.partition,
        invalid_events.offset,
        invalid_events.event_index,
        invalid_events.timestamp,
        invalid_events.format,
        invalid_events.error_code,
        invalid_events.error_detail,
        raw_payloads.key,
        raw_payloads.value
    from invalid_events
    inner join raw_payloads using (topic, partition, offset)
)

select * from final
