{# A SQL string literal of any text. #}
{% macro sql_text(text) -%}
    '{{ text | replace("\\", "\\\\") | replace("'", "\\'") }}'
{%- endmacro %}
