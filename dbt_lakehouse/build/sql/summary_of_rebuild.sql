{#
  The summary of the states of a rebuild (fold.Rebuilt). Its newest place and time include the
  states, the truncates, and the states remembered from before.

  Arguments:
      states: the relation of the states.
      deleted_keys: the table of remembered states, read under `scopes`.
#}
select
    count_if(_lh_live) as live,
    count_if(not _lh_live) as absent,
    unix_micros(max(log_time)) as log_time,
    unix_micros(max(time)) as time,
    count_if(_lh_is_reinserted) as reinserted,
    to_json(max(if(_lh_is_reinserted, place, null))) as reinserted_at
from (
    select
        if(_position is null, null, _lh_live) as _lh_live,
        _position.log_time,
        _max_occurred_at as time,
        _lh_is_reinserted,
        struct(_position.topic, _position.partition, _position.offset) as place
    from {{ states }}
    union all
    select cast(null as boolean), position.log_time, max_occurred_at, false, null
    from {{ deleted_keys }}
    where scope in ({{ scopes | map('literal') | join(', ') }})
)
