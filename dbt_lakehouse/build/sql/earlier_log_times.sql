{#
  The log times of the payloads that earlier runs have looked at.

  Arguments:
      payloads: these.
      log_times: the table of those that are not their payload's own timestamp.
#}
select
    topic,
    partition,
    offset,
    coalesce(log_times.log_time, payloads.timestamp) as log_time
from {{ payloads }} as payloads
left join {{ log_times }} as log_times using (topic, partition, offset)
