{#
  The body of a gold model: the current state of a change log, one row per live key.

      {{ current_state(ref("customers_changes")) }}

  Key, columns and all else are the log's (macros/change_log/change_log.sql). Of a table without a
  key, each row image is a row here (dbt_lakehouse/build/sql/current_rows.sql).

  Compiled, it is the fold of all events of the log, which `dbt show` shows and unit tests test. In
  a run, the relation of events is a view: all of the log for a first load, else the new events
  (dbt_lakehouse/build/current_state.py). The SQL that is run is this one.

  Arguments:
      changes: the change log; the model's only one.
      columns: the value columns to have, of those that the log has; none for all.
#}
{% macro current_state(changes, columns=none) -%}
    {%- do adapter.refuse_arguments('current_state', kwargs) -%}
    {{- config(materialized='current_state', meta={'current_state': {'columns': columns}}) -}}
    {%- do adapter.refuse_other_sql(model, 'current_state') -%}
    {#- What runs read and write beside the log. -#}
    {%- do [ref('deleted_keys'), ref('fold_counters')] -%}
    {%- if not execute -%}
        {%- do ref('set_less_deletes') -%}
        {%- do return('') -%}
    {%- endif -%}
    {%- set fold = adapter.fold_of(changes, columns) -%}
    {%- if dbt.is_building() -%}
        {%- set more = [] if fold.keyless else [adapter.own_table('deleted_keys')] -%}
        {%- do dbt.begin_run([changes] + more, fold, refolds=fold.keyless) -%}
    {%- endif -%}
    {{ adapter.current_state_sql(
        model,
        fold,
        changes,
        ref('set_less_deletes') if fold.namespace else none,
        dbt.as_of_text(),
        this if dbt.is_building() else none
    ) }}
{%- endmacro %}
