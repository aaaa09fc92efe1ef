{#
  The partitions of new payloads: their first and last offset, the timestamps at both ends, the time
  at which the first payload landed, in microseconds, whether a timestamp is missing, or less than
  that of an earlier offset, and their number.

  Arguments:
      payloads: the new rows of bronze.
      is_small: whether they are few enough for one task.
#}
select
    to_json(struct(topic, partition)) as name,
    min(offset) as first_offset,
    max(offset) as last_offset,
    unix_micros(min(timestamp)) as oldest,
    unix_micros(max(timestamp)) as newest,
    unix_micros(min(landed_at)) as landed_at,
    bool_or(timestamp is null or timestamp < _lh_newest_before) as goes_back,
    count(*) as payloads
from (
    select
        topic,
        partition,
        offset,
        timestamp,
        landed_at,
        max(timestamp) over (
            partition by topic, partition
            order by offset
            rows between unbounded preceding and 1 preceding
        ) as _lh_newest_before
    from (
        select {{ '/*+ coalesce(1) */' if is_small }} topic, partition, offset, timestamp, landed_at
        from {{ payloads }}
    )
)
group by topic, partition
