{#
  The body of a gold model: the current state of a change log, one row per live key.

      {{ current_state(
          changes=ref("customers_changes"),
          key=["id"],
          columns=["first_name", "last_name"],
      ) }}

  Compiled, it is the fold of the whole log: what a first load and a full refresh run, and `dbt show` shows. Incremental
  runs fold the same way, but only the keys that have new events, starting from what is known of them
  (macros/fold/build_current_state.sql).

  Arguments:
      changes: the change log; the model's first ref.
      key: its key columns.
      columns: its value columns.
      namespace: the Aerospike namespace, for Aerospike sets only. The fold then takes the namespace's deletes without
          a set as events of the keys in the log, rows can expire, and `_namespace` and `_set` are added.
      order_by_source_time: whether an event that is older by its source time than one already applied is rejected.
          Default: Aerospike sets only, whose connectors can re-order; other sources' times are not safe to reject by.
#}
{% macro current_state(changes, key, columns, namespace=none, order_by_source_time=none) -%}
    {#- Quoted: a source's columns can have any name. -#}
    {%- set fold = {
        'key': quoted(key),
        'columns': quoted((['_namespace', '_set'] if namespace else []) + columns),
        'namespace': namespace,
        'order_by_source_time': (namespace is not none) if order_by_source_time is none else order_by_source_time,
    } -%}
    {{ config(unique_key=key, meta={'fold': fold}) }}
    {#- What the incremental runs read and write beside the log. -#}
    {%- do [ref('deleted_keys'), ref('fold_counters')] -%}
    {%- set deletes = ref('set_less_deletes') if namespace -%}
    {%- set log = new_rows(changes) -%}
with events as (
    {{ _log_events(fold, log, deletes) | indent(4) }}
),

{{ _fold_ctes(fold, _truncation_of(fold, log)) }}

select {{ _gold_columns(fold) | join(', ') }}
from states
where _live
{%- endmacro %}

{# The columns of the gold table, in order. #}
{% macro _gold_columns(fold) %}
    {% set technical = ['_occurred_at', '_max_occurred_at', '_position'] %}
    {% do return(fold.key + fold.columns + technical + (['_expires_at'] if fold.namespace else [])) %}
{% endmacro %}

{#
  The events of a change log as the fold takes them: key, columns, and `_operation`, `_occurred_at`, `_guard_time` (what
  later events are held against), `_position`, `_expires_at`, `_is_state` (false: no summary of earlier events),
  `_is_clock_ahead`, `_unchanged_columns`. An update that has replaced its key is a delete of the old key too. Truncates
  are no events of a key: see _truncation_of.

  Arguments:
      changes: the log to select from.
      deletes: the table of deletes without a set, or none.
      keys: a relation with the key columns, to take only their events, or none for all.
#}
{% macro _log_events(fold, changes, deletes, keys=none) -%}
    {%- set key_list = fold.key | join(', ') -%}
    {%- set known = known_time('_occurred_at', '_kafka_timestamp') -%}
    {%- set no_names = 'cast(null as array<string>)' -%}
select
    {{ (fold.key + fold.columns) | join(', ') }},
    _operation,
    {{ known }} as _occurred_at,
    {{ known }} as _guard_time,
    _position,
    {{ '_expires_at' if fold.namespace else 'cast(null as timestamp) as _expires_at' }},
    false as _is_state,
    _occurred_at is not null and {{ known }} is null as _is_clock_ahead,
    {{ no_names if fold.namespace else '_unchanged_columns' }} as _unchanged_columns
from {{ changes }} as changes
{{ 'left semi join ' ~ keys ~ ' using (' ~ key_list ~ ')' if keys }}
where
    _operation in ('snapshot', 'insert', 'update', 'upsert', 'delete')
    {%- for column in fold.key %}
    and {{ column }} is not null
    {%- endfor %}
    {%- if not fold.namespace %}
union all
select * from (
    select
        {%- for column in fold.key %}
        _previous_key.{{ column }},
        {%- endfor %}
        {{ _no_columns(fold) | indent(4) }}
        'delete' as _operation,
        {{ known }} as _occurred_at,
        {{ known }} as _guard_time,
        _position,
        cast(null as timestamp) as _expires_at,
        false as _is_state,
        -- Counted with the new key.
        false as _is_clock_ahead,
        {{ no_names }} as _unchanged_columns
    from {{ changes }} as changes
    -- By a column, whose statistics spare the files without any.
    where {% for column in fold.key %}_previous_key.{{ column }} is not null{{ ' and ' if not loop.last }}{% endfor %}
)
{{ 'left semi join ' ~ keys ~ ' using (' ~ key_list ~ ')' if keys }}
    {%- endif %}
    {%- if deletes %}
union all
select
    _digest,
    {{ _no_columns(fold) }}
    _operation,
    {{ known }} as _occurred_at,
    {{ known }} as _guard_time,
    _position,
    cast(null as timestamp) as _expires_at,
    false as _is_state,
    _occurred_at is not null and {{ known }} is null as _is_clock_ahead,
    {{ no_names }} as _unchanged_columns
from {{ deletes }} as deletes
left semi join (select _digest from {{ keys or changes }}) using (_digest)
where _namespace = {{ sql_text(fold.namespace) }}
    {%- endif -%}
{%- endmacro %}

{# The value columns of an event that has none. #}
{% macro _no_columns(fold) -%}
    {%- for column in fold.columns %}
    null as {{ column }},
    {%- endfor %}
{%- endmacro %}

{#
  The newest truncate of a log, as SQL of its position and of its time, or none for tables that know none. What came
  before it no longer matters: events before it are left out, and its time is what later events are held against.

  Arguments:
      changes: the log to select from.
#}
{% macro _truncation_of(fold, changes) %}
    {% if fold.namespace %}
        {% do return(none) %}
    {% endif %}
    {% set truncates %}
        from {{ changes }} as changes
        -- A truncate has no key; by that, statistics spare the files without any.
        where {{ fold.key[0] }} is null and _operation = 'truncate'
    {% endset %}
    {% set time = known_time('_occurred_at', '_kafka_timestamp') %}
    {% do return({
        'position': '(select max(_position) ' ~ truncates ~ ')',
        'time': '(select max_by(' ~ time ~ ', _position) ' ~ truncates ~ ')',
    }) %}
{% endmacro %}

{#
  The fold itself, from a CTE `events` to a CTE `states`: one row per key with the columns of the last applied event,
  `_max_occurred_at`, `_position`, `_null_position` (of the newest event without a time), `_late_events` (how many were
  rejected) and `_live`.

  Arguments:
      truncation: as of _truncation_of, or none if the log has no truncate.
      fills: whether columns that an event leaves as they were are to be looked for, in what came before it.
#}
{% macro _fold_ctes(fold, truncation=none, fills=true) -%}
    {%- set key_list = fold.key | join(', ') -%}
    {%- set winner = fold.columns + ['_operation', '_occurred_at', '_expires_at'] -%}
    {%- set fills = fills and not fold.namespace and fold.columns -%}
    {%- set start = ', ' ~ truncation.time if truncation else '' -%}
judged as (
    select
        *,
        {% if fold.order_by_source_time -%}
        -- Late: both times known, and an event before this one in the log has the newer. That rejected events count
        -- too makes no difference: they never have the newest time.
        _is_state or coalesce(
            _guard_time >= {{ 'greatest(' if start }}max(_guard_time) over (
                partition by {{ key_list }}
                order by _position
                rows between unbounded preceding and 1 preceding
            ){{ start ~ ')' if start }},
            true
        ) as _applied
        {%- else -%}
        true as _applied
        {%- endif %}
    from events
    {%- if truncation %}
    where coalesce(_position > {{ truncation.position }}, true)
    {%- endif %}
),

{% if fills -%}
-- A row's life begins behind each delete of it.
lives as (
    select
        *,
        count_if(_applied and _operation = 'delete') over (
            partition by {{ key_list }}
            order by _position
            rows between unbounded preceding and current row
        ) as _life
    from judged
),

filled as (
    select
        * except ({{ fold.columns | join(', ') }}),
        {%- for column in fold.columns %}
        if(
            {{ _is_unchanged(column) }},
            last(if(_applied and _operation <> 'delete' and not {{ _is_unchanged(column) }}, struct({{ column }}), null), true) over (
                partition by {{ key_list }}, _life
                order by _position
                rows between unbounded preceding and current row
            ).{{ column }},
            {{ column }}
        ) as {{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from lives
),

{% endif -%}
folded as (
    select
        {{ key_list }},
        max_by(struct({{ winner | join(', ') }}), _position) filter (where _applied) as _winner,
        {{ 'greatest(' if start }}max(_guard_time){{ start ~ ')' if start }} as _max_occurred_at,
        max(_position) filter (where _applied) as _position,
        max(_position) filter (where _guard_time is null) as _null_position,
        count_if(not _applied) as _late_events
    from {{ 'filled' if fills else 'judged' }}
    group by {{ key_list }}
),

states as (
    select
        {{ key_list }},
        {%- for column in fold.columns %}
        _winner.{{ column }},
        {%- endfor %}
        _winner._occurred_at,
        _max_occurred_at,
        _position,
        _winner._expires_at,
        _null_position,
        _late_events,
        _winner._operation <> 'delete' and coalesce(_winner._expires_at > {{ as_of() }}, true) as _live
    from folded
)
{%- endmacro %}

{# Whether an event leaves a column as it was. #}
{% macro _is_unchanged(column) -%}
    coalesce(array_contains(_unchanged_columns, {{ sql_text(column.strip('`')) }}), false)
{%- endmacro %}
