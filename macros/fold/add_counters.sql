{#
  Adds a row to `fold_counters` for the running invocation; what is not counted is null.

  Arguments:
      table_name: SQL of the table's name.
      counters: the numbers, by column.
#}
{% macro add_counters(table_name, counters) %}
    {% do run_query(
        'insert into ' ~ ref('fold_counters')
        ~ ' (invocation_id, gold_table, as_of, ' ~ counters.keys() | join(', ') ~ ') values ('
        ~ ([sql_text(invocation_id), table_name, as_of()] + counters.values() | list) | join(', ')
        ~ ')'
    ) %}
{% endmacro %}
