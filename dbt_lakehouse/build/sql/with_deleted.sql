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
        max(if(_operation <> 'delete', struct(_rank, _epoch), null)) over (
            partition by {{ fold.key_list }}
        ) as _last_write
    from ranked
),

last_lives as (
    select
        * except ({{ '_time, ' if fold.order_by_source_time }}_epoch, _is_end, _rank, _last_write)
    from ordered
    where _rank <= _last_write._rank and _epoch = _last_write._epoch
),

last_rows as (
    {{ last | indent }}
),

ends as (
    select
        {{ fold.key_list }},
        max(_guard_time) as _newest_time,
        min_by(
            struct(
                {{ (fold.columns + ['_occurred_at', '_position']) | join(', ') }},
                coalesce(_guard_time, _position.log_time) as _time
            ),
            _rank
        ) filter (
            -- Without a write, a truncate has taken nothing away.
            where _rank > _last_write._rank or (_last_write is null and not _is_end)
        ) as _end
    from ordered
    group by {{ fold.key_list }}
),

deleted as (
    select
        {{ fold.key_list }},
        {% for column in fold.columns %}
        if(last_rows._position is null, _end.{{ column }}, last_rows.{{ column }}) as {{ column }},
        {% endfor %}
        -- What finds the row expired has deleted nothing.
        if(
            _end is null or coalesce(last_rows._expires_at <= _end._time, false),
            struct(last_rows._occurred_at, last_rows._position),
            struct(_end._occurred_at, _end._position)
        ) as _by,
        _newest_time,
        last_rows._expires_at,
        -- Neither is null of a live row alone.
        coalesce(least(_end._time, last_rows._expires_at), timestamp_micros(0)) as _deleted_at
    from ends
    left join last_rows using ({{ fold.key_list }})
    where _end is not null or last_rows._position is not null
)

select
    {{ fold.state_columns | join(', ') }},
    cast(null as timestamp) as _deleted_at
from live
union all
select
    {{ (fold.key + fold.columns) | join(', ') }},
    _by._occurred_at,
    _newest_time as _max_occurred_at,
    _by._position,
    {% if fold.namespace %}
    _expires_at,
    {% endif %}
    _deleted_at
from deleted
