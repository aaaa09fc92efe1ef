{% import 'parts.sql' as parts %}
{% import 'events.sql' as events %}
{#
  The versions of the keys of a log, of all or of some.

  A version begins at its event's source time; where the source gives none, at its log time, or at
  the next event's time if that is earlier. Versions follow each other in the order of the fold
  (fold.sql): by source time where the table is ordered by it, else as in the log; a time that goes
  back in that order counts as its predecessor's. Of versions that begin at the same instant, the
  last one remains. So an event that comes late splits a version, and the versions that are current
  are the rows of the gold table.

  Arguments:
      fold: the Fold (dbt_lakehouse/declared/fold_of_log.py).
      log: the change log, to select from.
      deletes: the deletes without a set, of a namespace; else none.
      keys: a relation with the key columns, or none for all.
      as_of: the moment at which rows expire, as text.
#}
{% set key_list = fold.key | join(', ') %}
{% set up_to_now = 'over (partition by ' ~ key_list ~ ' order by _rank)' %}
{% set columns = fold.history_columns %}
{% set tracked = parts.exact_json('struct(' ~ (fold.track_columns or []) | join(', ') ~ ')') %}
with log_events as (
    {{ events.all_events(fold, log, deletes, keys) | indent }}
),

{# A truncate is a delete of each key that it took away. #}
{% if fold.namespace %}
events as (
    select
        *,
        0 as _epoch,
        false as _is_end
    from log_events
),
{% elif fold.several_sources %}
placed as (
    select
        *,
        {{ parts.is_effective(fold.key) | indent(8) }} as _is_effective
    from log_events
),

own as (
    select
        *,
        lag(_operation) over (
            partition by {{ key_list }}
            order by _position
        ) as _operation_before
    from placed
    where _is_effective
),

events as (
    select
        * except (_operation, _is_effective, _operation_before),
        if(_operation = 'truncate', 'delete', _operation) as _operation,
        0 as _epoch,
        false as _is_end
    from own
    -- A second truncate in a row takes nothing away, and its time is none of the key's.
    where not (_operation = 'truncate' and _operation_before <=> 'truncate')
),
{% else %}
truncates as (
    select
        array_sort(collect_list(struct(
            _position,
            {{ parts.known_time() | indent(12) }} as _time
        ))) as _all
    from {{ log }} as changes
    -- A truncate has no key; by that, statistics spare the files without any.
    where {{ fold.key[0] }} is null and _operation = 'truncate'
),

placed as (
    select
        log_events.*,
        filter(_all, truncate -> truncate._position < log_events._position) as _before,
        get(filter(_all, truncate -> truncate._position > log_events._position), 0) as _end
    from log_events
    cross join truncates
),

events as (
    select
        * except (_before, _end),
        size(_before) as _epoch,
        false as _is_end
    from placed
    {% if fold.order_by_source_time %}
    where coalesce(_guard_time >= try_element_at(_before, -1)._time, true)
    {% endif %}
    union all
    select
        {{ key_list }},
        {{ parts.no_columns(fold.columns) | indent(8) }}
        'delete' as _operation,
        _end._time as _occurred_at,
        _end._time as _guard_time,
        _end._position,
        cast(null as timestamp) as _expires_at,
        false as _is_state,
        false as _is_clock_ahead,
        cast(null as array<string>) as _unchanged_columns,
        _epoch,
        true as _is_end
    from (
        select distinct {{ key_list }}, _end, size(_before) as _epoch
        from placed
        where _end is not null
    )
),
{% endif %}

{% if fold.order_by_source_time %}
timed as (
    select
        *,
        -- An event without a time comes after all that the log has before it.
        coalesce(
            _guard_time,
            max(_guard_time) over (
                partition by {{ key_list }}, _epoch
                order by _position
                rows between unbounded preceding and 1 preceding
            )
        ) as _time
    from events
),

{% endif %}
ranked as (
    select
        *,
        row_number() over (
            partition by {{ key_list }}
            order by
                {{ '_epoch, _is_end, _time nulls first, ' if fold.order_by_source_time }}_position
        ) as _rank
    from {{ 'timed' if fold.order_by_source_time else 'events' }}
),

begun as (
    select
        *,
        coalesce(
            _guard_time,
            least(
                _position.log_time,
                -- Of the events behind, as those before in the other order: Spark computes a frame
                -- that has no end anew for every row.
                min(_guard_time) over (
                    partition by {{ key_list }}
                    order by _rank desc
                    rows between unbounded preceding and 1 preceding
                )
            )
        ) as _begin
    from ranked
),

{% if fold.ends_lives %}
lives as (
    select
        *,
        count_if(_begins_life) {{ up_to_now }} as _life
    from (
        select
            *,
            {{ parts.begins_life(fold.key, '_rank') | indent(12) }} as _begins_life
        from begun
    )
),

{% endif %}
states as (
    select
        {{ key_list }},
        {% for column in fold.columns %}
        {% if fold.may_leave %}
        last(
            if(
                not {{ parts.is_unchanged(column) }},
                struct(if(_operation = 'delete', null, {{ column }}) as value),
                null
            ),
            true
        ) over (
            partition by {{ key_list }}{{ ', _life' if fold.ends_lives }}
            order by _rank
        ).value as {{ column }},
        {% else %}
        {{ column }},
        {% endif %}
        {% endfor %}
        _operation,
        _occurred_at,
        _position,
        _expires_at,
        _rank,
        max(_begin) {{ up_to_now }} as valid_from
    from {{ 'lives' if fold.ends_lives else 'begun' }}
),

followed as (
    select
        *,
        lead(struct(valid_from)) over (partition by {{ key_list }} order by _rank) as _next
    from states
),

-- What is replaced at the instant that it begins was never valid.
lasting as (
    select
        * except (_next),
        least(
            _next.valid_from,
            -- What the next event finds expired has ended then, though its time may be ahead.
            if(_next is not null or _expires_at <= timestamp '{{ as_of }}', _expires_at, null)
        ) as valid_to
    from followed
    where
        _operation <> 'delete'
        and (_next is null or not valid_from <=> _next.valid_from)
),

{% if fold.track_columns %}
compared as (
    select
        *,
        coalesce(
            lag(struct(valid_to, {{ tracked | indent(12) }} as text)) over (
                partition by {{ key_list }}
                order by _rank
            ) <> struct(valid_from as valid_to, {{ tracked | indent(12) }} as text),
            true
        ) as _is_new
    from lasting
    where coalesce(valid_from < valid_to, true)
),

grouped as (
    select
        *,
        count_if(_is_new) {{ up_to_now }} as _version
    from compared
),

versions as (
    select
        {{ key_list }},
        min_by(valid_from, _rank) as valid_from,
        max_by(struct({{ columns | join(', ') }}, valid_to), _rank) as _last
    from grouped
    group by {{ key_list }}, _version
),

final as (
    select
        {{ key_list }},
        {% for column in columns %}
        _last.{{ column }},
        {% endfor %}
        valid_from,
        _last.valid_to,
        _last.valid_to is null as is_current
    from versions
)
{% else %}
final as (
    select
        {{ (fold.key + columns) | join(', ') }},
        valid_from,
        valid_to,
        valid_to is null as is_current
    from lasting
    where coalesce(valid_from < valid_to, true)
)
{% endif %}

{% if fold.bitemporal %}
select
    *,
    timestamp '{{ as_of }}' as recorded_from,
    cast(null as timestamp) as recorded_to
from final
{% else %}
select * from final
{% endif %}
