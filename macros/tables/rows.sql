{# The number of rows of a relation. #}
{% macro count_rows(relation) %}
    {% do return(run_query('select count(*) from ' ~ relation)[0][0]) %}
{% endmacro %}
