{#
  The SQL of a data test, or of a relation that one selects from (TESTS in
  dbt_lakehouse/build/kinds.py).

  Arguments:
      test: its name.
      table: the tested table.
      arguments: its other arguments, by their names.
#}
{% macro sql_of_test(test, table, arguments={}) -%}
    {{ adapter.test_sql(test, context, table, arguments) }}
{%- endmacro %}
