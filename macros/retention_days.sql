{# The value of a var that says for how many days something is kept. #}
{% macro retention_days(name) %}
    {% set days = var(name) %}
    {% if days is not number or days is boolean or days < 0 %}
        {% do exceptions.raise_compiler_error('vars.' ~ name ~ ' is ' ~ tojson(days) ~ ', not a number from 0') %}
    {% endif %}
    {% do return(days) %}
{% endmacro %}
