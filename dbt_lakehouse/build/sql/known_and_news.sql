{#
  The open versions, as state events, and the new events of their keys. The columns are those of
  event_parts.log_events.

  Arguments:
      fold: the Fold.
      known: the relation of the open versions.
      news: the relation of the new events.
      is_small: whether they are few enough for one task.
#}
{% set columns = (fold.key + fold.columns) | join(', ') %}
select {{ '/*+ coalesce(1) */ ' if is_small }}*
from (
    select * from {{ news }}
    union all
    select
        {{ columns }},
        'upsert' as _operation,
        _occurred_at,
        -- So that the version begins where it did.
        valid_from as _lh_guard_time,
        _position,
        {{ '_expires_at' if fold.namespace else 'cast(null as timestamp) as _expires_at' }},
        true as _lh_is_state,
        false as _lh_is_clock_ahead,
        cast(null as array<string>) as _unchanged_columns
    from {{ known }}
)
