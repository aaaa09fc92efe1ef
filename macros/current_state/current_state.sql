{#
  The body of a gold model: the current state of a change log, one row per live key.

      {{ current_state(
          changes=ref("customers_changes"),
          key=["id"],
          columns=["first_name", "last_name"],
      ) }}

  Compiled, it is the fold of the whole log: what a first load and a full refresh run, and
  `dbt show` shows. Incremental runs fold the same way, but only the keys that have new events,
  starting from what is known of them (macros/fold/build_current_state.sql).

  Arguments:
      changes: the change log; the model's first ref.
      key: its key columns.
      columns: its value columns.
      namespace: the Aerospike namespace, for Aerospike sets only. The fold then takes the
          namespace's deletes without a set as events of the keys in the log, rows can expire, and
          `_namespace` and `_set` are added.
      order_by_source_time: whether an event that is older by its source time than one already
          applied is rejected. Default: Aerospike sets only, whose connectors can re-order; other
          sources' times are not safe to reject by.
      partial: whether the log's images name only some of the columns (its own `partial=true`): the
          others keep what they had, each in its own order.
#}
{% macro current_state(
    changes, key, columns, namespace=none, order_by_source_time=none, partial=false
) -%}
    {%- set fold = _fold_arguments(key, columns, namespace, order_by_source_time, partial) -%}
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

{#
  The arguments of a fold as its macros take them; names quoted,
  for a source's columns can have any name.
#}
{% macro _fold_arguments(key, columns, namespace, order_by_source_time, partial) %}
    {% do return({
        'key': quoted(key),
        'columns': quoted((['_namespace', '_set'] if namespace else []) + columns),
        'namespace': namespace,
        'order_by_source_time':
            (namespace is not none) if order_by_source_time is none else order_by_source_time,
        'partial': partial,
    }) %}
{% endmacro %}

{# The columns of the gold table, in order. #}
{% macro _gold_columns(fold) %}
    {% set technical = ['_occurred_at', '_max_occurred_at', '_position'] %}
    {% do return(
        fold.key + fold.columns + technical + (['_expires_at'] if fold.namespace else [])
    ) %}
{% endmacro %}
