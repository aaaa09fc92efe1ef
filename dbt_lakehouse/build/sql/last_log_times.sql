{#
  The last offset of each partition, and its log time in microseconds.

  Arguments:
      earlier: a relation of the log times of all earlier payloads.
#}
select
    to_json(struct(topic, partition)) as name,
    max(offset) as last_offset,
    unix_micros(max_by(log_time, offset)) as log_time
from {{ earlier }}
group by topic, partition
