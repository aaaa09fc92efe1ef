{# A SQL string literal of any text. #}
{% macro sql_text(text) -%}
    {{- adapter.sql_text(text) -}}
{%- endmacro %}

{# Tells the user, also where `log` is a change log. #}
{% macro log_info(message) %}
    {% do log(message, info=true) %}
{% endmacro %}
