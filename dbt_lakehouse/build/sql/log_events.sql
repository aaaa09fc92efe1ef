{#
  The events that a change log reads, each with its typed row (`change`), in the same columns
  wherever they are from.

  Arguments:
      relations: new payloads' events by a function that knows the log, straight from the bytes; the
          rows that other_events has of it, by their texts.
      head: the columns of an event that tell where it is from, and what its row does not say.
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
{% if not loop.last %}
union all
{% endif %}
{% endfor %}
