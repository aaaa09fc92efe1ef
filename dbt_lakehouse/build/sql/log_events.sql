{#
  The events that a change log reads, each with its typed row (`change`), in the same columns
  whatever their origin.

  Arguments:
      relations: the events of payloads, decoded from the bytes by the log's own function, and the
          log's rows in other_events, by their texts.
      head: the columns of an event for its origin, for values outside its row, and with texts that
          the statement reads.
#}
{% for events in relations %}
select
    topic,
    partition,
    offset,
    timestamp,
    format,
    log_time,
    {{ head | join(',\n    ') }},
    change
from {{ events }}
{{ 'union all' if not loop.last }}
{% endfor %}
