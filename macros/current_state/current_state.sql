{#
  The body of a gold model: the current state of a change log, one row per live key.

      {{ current_state(ref("customers_changes")) }}

  Key, columns and all else are the log's (macros/change_log/change_log.sql). Of a table without a
  key, each row image is a row here (macros/history/current_rows.sql).

  Compiled, it is the fold of all events of the log, which `dbt show` shows and unit tests test. In
  a run, the relation of events is a view that the materialization defines: all of the log for a
  first load, else the new events with what is known of their keys. The SQL that is run is this one.

  Arguments:
      changes: the change log; the model's only one.
      columns: the value columns to have, of those that the log has; none for all.
#}
{% macro current_state(changes, columns=none) -%}
    {{- config(materialized='current_state', meta={'current_state': {'columns': columns}}) -}}
    {%- do adapter.refuse_other_sql(model, 'current_state') -%}
    {#- What runs read and write beside the log. -#}
    {%- do [ref('deleted_keys'), ref('fold_counters')] -%}
    {%- if not execute -%}
        {%- do ref('set_less_deletes') -%}
        {%- do return('') -%}
    {%- endif -%}
    {%- set fold = adapter.fold_of(changes, columns) -%}
    {%- if fold.keyless -%}
        {%- set log = dbt.begin_run([changes], fold, refolds=true).rows(changes.render())
            if dbt.is_building() else changes -%}
        {{ dbt.current_rows_sql(fold, log) }}
    {%- elif dbt.is_building() -%}
        {%- set run = dbt.begin_run([changes, adapter.own_table('deleted_keys')], fold) -%}
        {{ dbt.fold_sql(
            fold,
            events=dbt.view_of('events'),
            truncates=dbt.view_of('truncates') if dbt.may_meet_truncates(run, fold),
            leaves=adapter.may_leave_columns(this, changes, fold),
            doubts=adapter.may_doubt_key(changes)
        ) }}
        select * from states
    {%- else -%}
        {{ dbt.fold_sql(
            fold,
            events='(' ~ dbt.all_events_sql(
                fold, changes, ref('set_less_deletes') if fold.namespace
            ) ~ ')',
            truncates='(' ~ dbt.truncates_sql(fold, changes) ~ ')' if not fold.namespace,
            leaves=fold.may_leave
        ) }}
        select {{ fold.gold_columns | join(', ') }}
        from states
        where _live
    {%- endif -%}
{%- endmacro %}
