{#
  For each key with new events, the first of them by place and by time; whether one belongs before
  the known state (`_before`), and whether only the log can tell (`_unknown`).

  Arguments:
      fold: the Fold.
      news: the relation of the new events.
      known: the relation of the open versions, as of open_versions.sql.
#}
with firsts as (
    select
        {{ fold.key_list }},
        min(_position) as _first_position,
        min(coalesce(_guard_time, _position.log_time)) as _first_time,
        -- A snapshot's event may say that a truncate before it did not take the key away.
        bool_or(_operation = 'snapshot' or _position.log_time is null) as _unsaid
    from {{ news }}
    group by {{ fold.key_list }}
)

select
    firsts.*,
    -- At the same instant, versions that begin there would have to be folded again.
    _unsaid
    or coalesce(_first_position <= known._position, false)
    or coalesce(_first_time <= known._known_time, false) as _before,
    known._known_time is null as _unknown
from firsts
left join {{ known }} as known on {{ parts.equal('firsts', 'known', fold.key) }}
