{#
  The summary of folded states (fold.Found), times in microseconds since the epoch.

  Arguments:
      states: the relation of the states.
      as_of: the moment at which rows expire.
      is_late: the condition of late_states.sql.
      key_values: an aggregate of the first key column (key_ranges.values_sql).
#}
select
    count(*) as keys,
    coalesce(sum(_events), 0) as events,
    coalesce(sum(_clock_ahead), 0) as clock_ahead,
    coalesce(sum(_late_events), 0) as late_events,
    count_if(_expires_at <= timestamp '{{ as_of }}') as expired,
    count_if(not _live) as absent,
    count_if({{ is_late | indent }}) as possibly_late,
    count_if(_leaves_columns) as leaving,
    count_if(_is_reinserted) as reinserted,
    to_json(max(if(
        _is_reinserted,
        struct(_position.topic, _position.partition, _position.offset),
        null
    ))) as reinserted_at,
    unix_micros(max(_position.log_time)) as log_time,
    unix_micros(max(_max_occurred_at)) as time,
    {{ key_values }} as key_values
from {{ states }}
