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
    {%- set fold = {
        'key': key,
        'columns': (['_namespace', '_set'] if namespace else []) + columns,
        'namespace': namespace,
        'order_by_source_time': (namespace is not none) if order_by_source_time is none else order_by_source_time,
    } -%}
    {{ config(unique_key=key, meta={'fold': fold}) }}
    {#- What the incremental runs read and write beside the log. -#}
    {%- do [ref('deleted_keys'), ref('fold_counters')] -%}
    {%- set deletes = ref('set_less_deletes') if namespace -%}
with events as (
    {{ _log_events(fold, new_rows(changes), deletes) | indent(4) }}
),

{{ _fold_ctes(fold) }}

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
  `_is_clock_ahead`.

  Arguments:
      changes: the log to select from.
      deletes: the table of deletes without a set, or none.
      keys: a relation with the key columns, to take only their events, or none for all.
#}
{% macro _log_events(fold, changes, deletes, keys=none) -%}
    {%- set key_list = fold.key | join(', ') -%}
    {%- set known = known_time('_occurred_at', '_kafka_timestamp') -%}
select
    {{ (fold.key + fold.columns) | join(', ') }},
    _operation,
    {{ known }} as _occurred_at,
    {{ known }} as _guard_time,
    _position,
    {{ '_expires_at' if fold.namespace else 'cast(null as timestamp) as _expires_at' }},
    false as _is_state,
    _occurred_at is not null and {{ known }} is null as _is_clock_ahead
from {{ changes }} as changes
{{ 'left semi join ' ~ keys ~ ' using (' ~ key_list ~ ')' if keys }}
where
    _operation in ('snapshot', 'insert', 'update', 'upsert', 'delete')
    {%- for column in fold.key %}
    and {{ column }} is not null
    {%- endfor %}
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
    _occurred_at is not null and {{ known }} is null as _is_clock_ahead
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
  The fold itself, from a CTE `events` to a CTE `states`: one row per key with the columns of the last applied event,
  `_max_occurred_at`, `_position`, `_null_position` (of the newest event without a time), `_late_events` (how many were
  rejected) and `_live`.
#}
{% macro _fold_ctes(fold) -%}
    {%- set key_list = fold.key | join(', ') -%}
    {%- set winner = fold.columns + ['_operation', '_occurred_at', '_expires_at'] -%}
judged as (
    select
        *,
        {% if fold.order_by_source_time -%}
        -- Late: both times known, and an event before this one in the log has the newer. That rejected events count
        -- too makes no difference: they never have the newest time.
        _is_state or coalesce(
            _guard_time >= max(_guard_time) over (
                partition by {{ key_list }}
                order by _position
                rows between unbounded preceding and 1 preceding
            ),
            true
        ) as _applied
        {%- else -%}
        true as _applied
        {%- endif %}
    from events
),

folded as (
    select
        {{ key_list }},
        max_by(struct({{ winner | join(', ') }}), _position) filter (where _applied) as winner,
        max(_guard_time) as _max_occurred_at,
        max(_position) filter (where _applied) as _position,
        max(_position) filter (where _guard_time is null) as _null_position,
        count_if(not _applied) as _late_events
    from judged
    group by {{ key_list }}
),

states as (
    select
        {{ key_list }},
        {%- for column in fold.columns %}
        winner.{{ column }},
        {%- endfor %}
        winner._occurred_at,
        _max_occurred_at,
        _position,
        winner._expires_at,
        _null_position,
        _late_events,
        winner._operation <> 'delete' and coalesce(winner._expires_at > {{ as_of() }}, true) as _live
    from folded
)
{%- endmacro %}
