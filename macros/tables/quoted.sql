{# Names of columns in quotes: a source's columns can have any name. #}
{% macro quoted(names) %}
    {% set result = [] %}
    {% for name in names %}
        {% do result.append(adapter.quote(name)) %}
    {% endfor %}
    {% do return(result) %}
{% endmacro %}
