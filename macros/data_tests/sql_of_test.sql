{#
  The SQL of a data test, or of what one selects from (TESTS in dbt_lakehouse/build/kinds.py).

  Arguments:
      test: its name.
      table: the table that it is of.
      arguments: its others, by their names.
#}
{% macro sql_of_test(test, table, arguments={}) -%}
    {{ adapter.test_sql(test, context, table, arguments) }}
{%- endmacro %}
