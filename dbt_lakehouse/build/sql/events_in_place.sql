{#
  Where events are that other_events has looked at, to select from: their position, in which table
  each is (`place`), and whether it may be in another one too (`is_shared`), as an Aerospike delete
  without a set and what other_events gives to logs when it runs next.

  Arguments:
      events: other_events.
      own: its rows to look at.
      given: a condition on events that it gives to logs.
      logs: of each change log its place, its rows to look at, and its events that it has not read
          yet; none where there are none.
      payloads: those whose events are asked for, none for all.
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
    {# What logs have from other_events is there. #}
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
