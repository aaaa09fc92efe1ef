{#
  The places of the events that other_events has read, to select from: their position, the table
  that has each (`place`), and whether another may have it too (`is_shared`), such as an Aerospike
  delete without a set and the events that other_events gives to logs in its next run.

  Arguments:
      events: other_events.
      own: its rows to examine.
      given: a condition on events that it gives to logs.
      of_logs: SQL of the rows of change logs and of the events that these have not read yet, as of
          rows_in_place and unread_in_place; none if there are none.
#}
{% set event = 'topic, partition, offset, event_index' %}
(
    select
        {{ event }},
        'other_events' as place,
        (operation = 'delete' and source_table is null) or {{ given }} as is_shared
    from {{ own }}
    where added_by is null or added_by = 'redrive'
    {% if of_logs %}
    union all
    {# The events that logs have from other_events are in other_events too. #}
    select * from (
        {{ of_logs | indent(8) }}
    )
    left anti join (
        select {{ event }} from {{ events }} where added_by is not null
    ) using ({{ event }})
    {% endif %}
)
