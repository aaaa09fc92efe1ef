{#
  The body of a history model (slowly changing dimension, type 2): one row per version of each key,
  with the time that it was valid.

      {{ history(ref("customers_changes"), track_columns=["email"]) }}

  Incremental runs fold new events from the open versions of their keys if all of them come last,
  and otherwise rebuild the versions of these keys from the whole log
  (dbt_lakehouse/build/history_news.py, history.py).

  Arguments:
      changes: the change log; the model's only one. Key, columns and all other settings are the
          log's.
      track_columns: columns whose changes begin a new version; others are updated in the version in
          which they change. Default: each event begins one.
      columns: as in current_state.
      bitemporal: whether to keep superseded versions, too, with `recorded_from` and `recorded_to`.
#}
{% macro history(changes, track_columns=none, columns=none, bitemporal=false) -%}
    {#- For namespaces only. -#}
    {%- do execute or ref('set_less_deletes') -%}
    {{ adapter.model_sql('history', context, {'changes': changes}, adapter.declare('history', {
        'columns': columns, 'track_columns': track_columns, 'bitemporal': bitemporal
    }, kwargs)) }}
{%- endmacro %}
