{#
  Adds a row to `fold_counters` for the running invocation, at its end and with those of all other
  models: each of a hundred commits would write down all before it. What is not counted is null.

  Arguments:
      table_name: SQL of the table's name.
      counters: the numbers, by column.
#}
{% macro add_counters(table_name, counters) %}
    {% do adapter.insert_late(
        adapter.own_table('fold_counters'),
        ['invocation_id', 'gold_table', 'as_of'] + counters.keys() | list,
        [dbt.sql_text(invocation_id), table_name, dbt.as_of()] + counters.values() | list
    ) %}
{% endmacro %}
