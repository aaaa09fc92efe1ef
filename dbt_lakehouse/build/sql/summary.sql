{#
  The summary of folded states as one aggregate (fold.Found), times in microseconds since the epoch.

  Arguments:
      as_of: the moment at which rows expire.
      is_late: the condition of late_states.sql.
      key_values: an aggregate of the first key column (key_ranges.values_sql).
#}
named_struct(
    'keys', count(*),
    'events', coalesce(sum(_lh_events), 0),
    'clock_ahead', coalesce(sum(_lh_clock_ahead), 0),
    'late_events', coalesce(sum(_lh_late_events), 0),
    'expired', count_if(_expires_at <= timestamp '{{ as_of }}'),
    'absent', count_if(not _lh_live and _position is not null),
    'possibly_late', count_if({{ is_late | indent }}),
    'out_of_order', count_if(_lh_first_position <= _lh_known_position),
    'leaving', count_if(_lh_leaves_columns),
    'reinserted', count_if(_lh_is_reinserted),
    'reinserted_at', to_json(max(if(
        _lh_is_reinserted,
        struct(_position.topic, _position.partition, _position.offset),
        null
    ))),
    'log_time', unix_micros(max(_position.log_time)),
    'time', unix_micros(max(_max_occurred_at)),
    'key_values', {{ key_values }}
)
