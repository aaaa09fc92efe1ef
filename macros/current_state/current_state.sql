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
    {%- set own = {'columns': columns, 'deleted_rows': deleted_rows} -%}
    {#- What runs read and write beside the log; the last one is of namespaces alone. -#}
    {%- do [ref('deleted_keys'), ref('fold_counters'), execute or ref('set_less_deletes')] -%}
    {{ dbt.model_sql(
        'current_state', {'changes': changes}, adapter.declare('current_state', own, kwargs)
    ) }}
{%- endmacro %}
