{#
  Evaluates a query once, for the statements that follow; the number of its rows.

  Arguments:
      evaluated: the names of what was evaluated; the new one is added.
      name: the name of the temporary view.
      query: its SQL.
#}
{% macro evaluate(evaluated, name, query) %}
    {% do evaluated.append(name) %}
    {# Of dbt_lakehouse/evaluated_views.py. #}
    {% do return(run_query('create evaluated view ' ~ name ~ ' as ' ~ query)[0][0]) %}
{% endmacro %}

{# Drops what was evaluated. #}
{% macro forget_evaluated(evaluated) %}
    {% for name in evaluated | reverse %}
        {% do run_query('drop evaluated view ' ~ name) %}
    {% endfor %}
{% endmacro %}

{# The number of rows of a relation. #}
{% macro count_rows(relation) %}
    {% do return(run_query('select count(*) from ' ~ relation)[0][0]) %}
{% endmacro %}
