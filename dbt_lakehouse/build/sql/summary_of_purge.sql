{#
  The summary of a purge: the number of removed keys, the newest time among their states as text,
  and the newest sequence number of a delete without a set.

  Arguments:
      old: the relation of the states.
#}
select
    count(distinct scope, record_key) as keys,
    cast(
        max(greatest(position.log_time, null_position.log_time, max_occurred_at)) as string
    ) as horizon,
    max(if(scope like 'aerospike:%', _lh_sequence, null)) as sequence
from {{ old }}
