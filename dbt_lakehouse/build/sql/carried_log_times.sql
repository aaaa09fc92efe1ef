{#
  The last log times of earlier runs, for partitions whose payloads all come behind them.

  Arguments:
      carried: rows of topic, partition and log_time as SQL, at least one.
#}
select
    carried.topic,
    carried.partition,
    cast(-1 as bigint) as offset,
    carried.log_time as given_log_time
from (
    values {{ carried | tuples('topic', 'partition', 'log_time') | lines | indent }}
) as carried (topic, partition, log_time)
