{#
  Evaluates a query once, for the statements that follow; the number of its rows.

  Arguments:
      name: the name of the temporary view.
      query: its SQL.
#}
{% macro evaluate(name, query) %}
    {% do return(adapter.evaluate(name, query)) %}
{% endmacro %}

{#
  Drops what was evaluated.

  Arguments:
      prefix: with what the names begin.
#}
{% macro forget_evaluated(prefix) %}
    {% do adapter.drop_evaluated(prefix) %}
{% endmacro %}

{# The number of rows of a relation. #}
{% macro count_rows(relation) %}
    {% do return(run_query('select count(*) from ' ~ relation)[0][0]) %}
{% endmacro %}
