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
      deleted_rows: whether to keep the rows of deleted keys too, with when they were deleted in
          `_deleted_at` (dbt_lakehouse/build/deleted_rows.py).
#}
{% macro current_state(changes, columns=none, deleted_rows=false) -%}
    {%- do adapter.refuse_arguments('current_state', kwargs) -%}
    {%- set options = {'columns': columns} -%}
    {%- if deleted_rows -%}
        {%- do options.update(deleted_rows=true) -%}
    {%- endif -%}
    {{- config(materialized='current_state', meta={'current_state': options}) -}}
    {%- do adapter.refuse_other_sql(model, 'current_state') -%}
    {#- What runs read and write beside the log. -#}
    {%- do [ref('deleted_keys'), ref('fold_counters')] -%}
    {%- if not execute -%}
        {%- do ref('set_less_deletes') -%}
        {%- do return('') -%}
    {%- endif -%}
    {%- set fold = adapter.fold_of(changes, columns, deleted_rows=deleted_rows) -%}
    {%- if dbt.is_building() -%}
        {%- if fold.deleted_rows -%}
            {%- set more = [ref('set_less_deletes')] if fold.namespace else [] -%}
        {%- else -%}
            {%- set more = [] if fold.keyless else [adapter.own_table('deleted_keys')] -%}
        {%- endif -%}
        {%- do dbt.begin_run(
            [changes] + more, fold, refolds=fold.keyless or fold.deleted_rows
        ) -%}
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
