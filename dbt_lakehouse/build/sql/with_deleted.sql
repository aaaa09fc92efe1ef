{#
  The rows of a gold table that keeps deleted rows: the live ones, and for each other key its last
  row, with its deletion time, `_deleted_at`.

  Without a live row, the first event behind the key's last write in the order of the fold has ended
  the row: a delete, a truncate, or the row's own expiry. The row is the fold of the events before.
  So a late event has the same effect on a deleted row as on a live one. For a key without a write
  in the log, the row is the image that the delete ships.

  Arguments:
      fold: the Fold (dbt_lakehouse/declared/fold_of_log.py).
      log: the change log, to select from.
      events: SQL as of event_parts.all_events.
      live: SQL of the live rows, as of fold.sql.
      last: the same for the last rows, from the events of the relation `last_lives`.
#}
with live as (
    {{ live | indent }}
),

ordered as (
    with
    {{ ordered_parts.ranked(
        fold, log, 'select * from ' ~ events ~ ' left anti join live using (' ~ fold.key_list ~ ')'
    ) | indent }}

    select
        *,
        max(if(_operation <> 'delete', struct(_lh_rank, _lh_epoch), null)) over (
            partition by {{ fold.key_list }}
        ) as _lh_last_write
    from ranked
),

last_lives as (
    select
        * except (
            {{ '_lh_time,' if fold.order_by_source_time }}
            _lh_epoch, _lh_is_end, _lh_rank, _lh_last_write
        )
    from ordered
    where _lh_rank <= _lh_last_write._lh_rank and _lh_epoch = _lh_last_write._lh_epoch
),

last_rows as (
    {{ last | indent }}
),

ends as (
    select
        {{ fold.key_list }},
        max(_lh_guard_time) as _lh_newest_time,
        min_by(
            struct(
                {{ (fold.columns + ['_occurred_at', '_position']) | join(', ') }},
                coalesce(_lh_guard_time, _position.log_time) as _lh_time
            ),
            _lh_rank
        ) filter (
            -- Without a write, a truncate has taken nothing away.
            where _lh_rank > _lh_last_write._lh_rank or (_lh_last_write is null and not _lh_is_end)
        ) as _lh_end
    from ordered
    group by {{ fold.key_list }}
),

deleted as (
    select
        {{ fold.key_list }},
        {{ fold.columns
            | each('if(last_rows._position is null, _lh_end.{}, last_rows.{}) as {}')
            | lines_with_commas | indent(8) }}
        -- What finds the row expired has deleted nothing.
        if(
            _lh_end is null or coalesce(last_rows._expires_at <= _lh_end._lh_time, false),
            struct(last_rows._occurred_at, last_rows._position),
            struct(_lh_end._occurred_at, _lh_end._position)
        ) as _lh_by,
        _lh_newest_time,
        last_rows._expires_at,
        -- Neither is null of a live row alone.
        coalesce(least(_lh_end._lh_time, last_rows._expires_at), timestamp_micros(0)) as _deleted_at
    from ends
    left join last_rows using ({{ fold.key_list }})
    where _lh_end is not null or last_rows._position is not null
)

select
    {{ fold.state_columns | join(', ') }},
    cast(null as timestamp) as _deleted_at
from live
union all
select
    {{ (fold.key + fold.columns) | join(', ') }},
    _lh_by._occurred_at,
    _lh_newest_time as _max_occurred_at,
    _lh_by._position,
    {{ '_expires_at,' if fold.namespace }}
    _deleted_at
from deleted
