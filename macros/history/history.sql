{#
  The body of a history model (slowly changing dimension, type 2): one row per version of each key,
  with the time that it was valid.

      {{ history(ref("customers_changes"), track_columns=["email"]) }}

  A version begins at its event's source time; where the source gives none, at its log time, or at
  the next event's time if that is earlier. Versions follow each other in the order of the fold
  (dbt_lakehouse/build/sql/fold.sql): by source time where the table is ordered by it, else as in the
  log; a time that goes back in that order counts as its predecessor's. Of versions that begin at
  the same instant, the last one remains. So an event that comes late splits a version, and the
  versions that are current are the rows of the gold table.

  Incremental runs make the versions of the keys that have new events anew, from the whole log
  (macros/history/materialization.sql).

  Arguments:
      changes: the change log; the model's only one. Key, columns and all else are the log's.
      track_columns: columns whose changes make a version; others are brought up to date in the
          version they change in. Default: each event makes one.
      columns: as in current_state.
#}
{% macro history(changes, track_columns=none, columns=none) -%}
    {{- config(
        materialized='history',
        meta={'history': {'columns': columns, 'track_columns': track_columns}}
    ) -}}
    {%- do adapter.refuse_other_sql(model, 'history') -%}
    {%- if not execute -%}
        {%- do ref('set_less_deletes') -%}
        {%- do return('') -%}
    {%- endif -%}
    {%- set fold = adapter.fold_of(changes, columns, track_columns, is_history=true) -%}
    {%- set deletes = ref('set_less_deletes') if fold.namespace -%}
    {%- if dbt.is_building() -%}
        {%- set upstreams = [changes] + ([deletes] if deletes else []) -%}
        {%- set run = dbt.begin_run(upstreams, fold, refolds=true) -%}
        {{ dbt.history_sql(
            fold,
            dbt.pinned(changes, run.snapshot_of(changes)),
            dbt.pinned(deletes, run.snapshot_of(deletes)) if deletes,
            dbt.view_of('touched') if run.is_incremental
        ) }}
    {%- else -%}
        {{ dbt.history_sql(fold, changes, deletes) }}
    {%- endif -%}
{%- endmacro %}

{#
  The versions of all keys, or of some.

  Arguments:
      fold: the Fold (dbt_lakehouse/dbt/declarations.py).
      log: the change log to read, as SQL of a relation.
      deletes: the deletes without a set, for Aerospike sets.
      keys: a relation with the keys, or none for all.
#}
{% macro history_sql(fold, log, deletes, keys=none) -%}
    {%- set key_list = fold.key | join(', ') -%}
    {%- set fills = fold.may_leave -%}
    {%- set up_to_now = 'over (partition by ' ~ key_list ~ ' order by _rank)' -%}
    {%- set columns = fold.history_columns -%}
    {%- set tracked = dbt.exact_json('struct(' ~ fold.track_columns | join(', ') ~ ')')
        if fold.track_columns -%}
with log_events as (
    {{ dbt.all_events_sql(fold, log, deletes, keys) | indent(4) }}
),

{{ dbt._with_truncates(fold, log) }}

{% if fold.order_by_source_time -%}
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

{% endif -%}
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

{% if fold.ends_lives -%}
lives as (
    select
        *,
        count_if(_begins_life) {{ up_to_now }} as _life
    from (select *, {{ dbt.begins_life(key_list, '_rank') }} as _begins_life from begun)
),

{% endif -%}
states as (
    select
        {{ key_list }},
        {%- for column in fold.columns %}
        {% if fills -%}
        last(
            if(
                not {{ dbt.is_unchanged(column) }},
                struct(if(_operation = 'delete', null, {{ column }}) as value),
                null
            ),
            true
        ) over (
            partition by {{ key_list ~ ', _life' if fold.ends_lives else key_list }}
            order by _rank
        ).value as {{ column }},
        {%- else -%}
        {{ column }},
        {%- endif %}
        {%- endfor %}
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
            if(_next is not null or _expires_at <= {{ dbt.as_of() }}, _expires_at, null)
        ) as valid_to
    from followed
    where
        _operation <> 'delete'
        and (_next is null or not valid_from <=> _next.valid_from)
),

{% if fold.track_columns -%}
compared as (
    select
        *,
        coalesce(
            lag(struct(valid_to, {{ tracked }} as text)) over (
                partition by {{ key_list }}
                order by _rank
            ) <> struct(valid_from as valid_to, {{ tracked }} as text),
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
        {%- for column in columns %}
        _last.{{ column }},
        {%- endfor %}
        valid_from,
        _last.valid_to,
        _last.valid_to is null as is_current
    from versions
)
{%- else -%}
final as (
    select
        {{ (fold.key + columns) | join(', ') }},
        valid_from,
        valid_to,
        valid_to is null as is_current
    from lasting
    where coalesce(valid_from < valid_to, true)
)
{%- endif %}

select * from final
{%- endmacro %}

{#
  From a CTE `log_events` to a CTE `events`, in which a truncate is a delete of each key
  that it took away.
#}
{% macro _with_truncates(fold, log) -%}
{%- if fold.namespace -%}
events as (
    select
        *,
        0 as _epoch,
        false as _is_end
    from log_events
),
{%- elif fold.several_sources -%}
placed as (
    select
        *,
        {{ dbt.is_effective(fold) }} as _is_effective
    from log_events
),

own as (
    select
        *,
        lag(_operation) over (
            partition by {{ fold.key | join(', ') }}
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
{%- else -%}
truncates as (
    select
        array_sort(collect_list(struct(
            _position,
            {{ dbt.known_time('_occurred_at', '_kafka_timestamp') }} as _time
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
    {%- if fold.order_by_source_time %}
    where coalesce(_guard_time >= try_element_at(_before, -1)._time, true)
    {%- endif %}
    union all
    select
        {{ fold.key | join(', ') }},
        {{- dbt.no_columns(fold) | indent(4) }}
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
        select distinct {{ fold.key | join(', ') }}, _end, size(_before) as _epoch
        from placed
        where _end is not null
    )
),
{%- endif -%}
{%- endmacro %}
