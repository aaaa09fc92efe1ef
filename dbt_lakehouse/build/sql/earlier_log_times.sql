{#
  The log times of the payloads that earlier runs have read.

  Arguments:
      payloads: these payloads.
      log_times: the table of the log times that differ from the payload's timestamp.
      places: the topic, the partition and the first offset of those to take, as SQL; empty for all.
#}
select
    topic,
    partition,
    offset,
    coalesce(log_times.log_time, payloads.timestamp) as log_time
from {{ payloads }} as payloads
left join {{ log_times }} as log_times using (topic, partition, offset)
{% for each in places %}
{{ 'where' if loop.first else '    or' }} (
    topic = {{ each.topic }} and partition = {{ each.partition }} and offset >= {{ each.first }}
)
{% endfor %}
