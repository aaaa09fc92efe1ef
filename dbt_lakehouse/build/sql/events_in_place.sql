{#
  The places of the events that other_events has read, to select from: their position, the table
  that has each (`place`), and whether another may have it too (`is_shared`), such as an Aerospike
  delete without a set and the events that other_events gives to logs in its next run.

  Arguments:
      events: other_events.
      own: its rows to examine.
      given: a condition on events that it gives to logs.
      logs: for each change log its place, its rows to examine, and the events that it has not read
          yet; none if there are none.
      payloads: the payloads whose events are wanted, none for all.
#}
{% set event = 'topic, partition, offset, event_index' %}
(
    {%- if payloads %}
    select * from (
    {%- endif %}
    select
        {{ event }},
        'other_events' as place,
        (operation = 'delete' and source_table is null) or {{ given }} as is_shared
    from {{ own }}
    where added_by is null or added_by = 'redrive'
    {% if logs %}
    union all
    {# The events that logs have from other_events are in other_events too. #}
    select * from (
        {% for log in logs %}
        {% if log.rows %}
        select
            _position.topic,
            _position.partition,
            _position.offset,
            _position.event_index,
            {{ log.place | literal }} as place,
            false as is_shared
        from {{ log.rows }}
        {{ 'union all' if log.unread }}
        {% endif %}
        {% if log.unread %}
        select {{ event }}, {{ log.place | literal }} as place, false as is_shared
        from {{ log.unread }}
        {% endif %}
        {{ 'union all' if not loop.last }}
        {% endfor %}
    )
    left anti join (
        select {{ event }} from {{ events }} where added_by is not null
    ) using ({{ event }})
    {% endif %}
    {% if payloads %}
    )
    left semi join {{ payloads }} using (topic, partition, offset)
    {% endif %}
)
