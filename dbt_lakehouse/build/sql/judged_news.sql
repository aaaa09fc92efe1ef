{#
  For each key with new events, the first of them by place and by time; whether one belongs before
  the known state (`_lh_before`), and whether only the log can tell (`_lh_unknown`). In a namespace
  also the keys without new events whose versions expire.

  Arguments:
      fold: the Fold.
      news: the relation of the new events.
      known: the relation of the open versions, as of open_versions.sql.
#}
with firsts as (
    select
        {{ fold.key_list }},
        min(_position) as _lh_first_position,
        min(coalesce(_lh_guard_time, _position.log_time)) as _lh_first_time,
        -- A snapshot's event may say that a truncate before it did not take the key away.
        bool_or(_operation = 'snapshot' or _position.log_time is null) as _lh_unsaid
    from {{ news }}
    group by {{ fold.key_list }}
)

select
    firsts.*,
    -- At the same instant, versions that begin there would have to be folded again.
    _lh_unsaid
    or coalesce(_lh_first_position <= known._position, false)
    or coalesce(_lh_first_time <= known._lh_known_time, false)
    {{ 'or coalesce(known._lh_is_unsure, false)' if fold.namespace }}
    {{
        'or coalesce(known._expires_at <= _lh_first_time, false)'
        if fold.namespace and fold.track_columns is not none
    }}
        as _lh_before,
    firsts._lh_first_position is not null and known._lh_known_time is null as _lh_unknown
from firsts
{{ 'full' if fold.namespace else 'left' }} join {{ known }} as known
    on {{ fold.key | each('firsts.{} = known.{}') | join(' and ') }}
