{#
  The newest log time and source time of all known states of a table's keys, in microseconds since
  the epoch.

  Arguments:
      table: the gold table.
      deleted_keys: the table of remembered states, read under `scopes`.
#}
select unix_micros(max(log_time)), unix_micros(max(time))
from (
    select _position.log_time, _max_occurred_at as time
    from {{ table }}
    union all
    select position.log_time, max_occurred_at
    from {{ deleted_keys }}
    where scope in ({{ scopes | map('literal') | join(', ') }})
)
