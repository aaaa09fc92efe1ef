{#
  The body of a history model (slowly changing dimension, type 2): one row per version of each key,
  with the time that it was valid.

      {{ history(ref("customers_changes"), track_columns=["email"]) }}

  Incremental runs fold new events from the open versions of their keys where all of them come
  last, and else make the versions of these keys anew from the whole log
  (dbt_lakehouse/build/history_news.py, history.py).

  Arguments:
      changes: the change log; the model's only one. Key, columns and all else are the log's.
      track_columns: columns whose changes make a version; others are brought up to date in the
          version they change in. Default: each event makes one.
      columns: as in current_state.
      bitemporal: whether it has what was believed before, too: `recorded_from` and `recorded_to`.
#}
{% macro history(changes, track_columns=none, columns=none, bitemporal=false) -%}
    {%- set own = {
        'columns': columns, 'track_columns': track_columns, 'bitemporal': bitemporal
    } -%}
    {#- Of namespaces alone. -#}
    {%- do execute or ref('set_less_deletes') -%}
    {{ dbt.model_sql('history', {'changes': changes}, adapter.declare('history', own, kwargs)) }}
{%- endmacro %}
