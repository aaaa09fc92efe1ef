{#
  Evaluates a query once, for the statements that follow; the number of its rows.

  Arguments:
      name: the name of the temporary view.
      query: its SQL.
#}
{% macro evaluate(name, query) %}
    {# Of dbt_lakehouse/spark/evaluated_views.py. #}
    {% do return(run_query('create evaluated view ' ~ name ~ ' as ' ~ query)[0][0]) %}
{% endmacro %}

{#
  Drops what was evaluated.

  Arguments:
      prefix: with what the names begin.
#}
{% macro forget_evaluated(prefix) %}
    {% do run_query('drop evaluated views ' ~ prefix ~ '...') %}
{% endmacro %}

{# The number of rows of a relation. #}
{% macro count_rows(relation) %}
    {% do return(run_query('select count(*) from ' ~ relation)[0][0]) %}
{% endmacro %}
