{#
  The body of a gold model: the current state of a change log, one row per live key.

      {{ current_state(ref("customers_changes")) }}

  Key, columns and all other settings are the log's (macros/change_log/change_log.sql). For a table
  without a key, each row image is a row here (dbt_lakehouse/build/sql/current_rows.sql).

  The compiled SQL is the fold of all events of the log, for `dbt show` and unit tests. In a run,
  the relation of events is a view: all of the log for a first load, else the new events
  (dbt_lakehouse/build/current_state.py). The run uses the same SQL.

  Arguments:
      changes: the change log; the model's only one.
      columns: the value columns of the log to include; none for all.
      deleted_rows: whether to keep the rows of deleted keys too, with their deletion time in
          `_deleted_at` (dbt_lakehouse/build/deleted_rows.py).
#}
{% macro current_state(changes, columns=none, deleted_rows=false) -%}
    {#- The tables that runs read and write beside the log; the last one is for namespaces only. -#}
    {%- do [ref('deleted_keys'), ref('fold_counters'), execute or ref('set_less_deletes')] -%}
    {{ adapter.model_sql('current_state', context, {'changes': changes}, adapter.declare(
        'current_state', {'columns': columns, 'deleted_rows': deleted_rows}, kwargs
    )) }}
{%- endmacro %}
