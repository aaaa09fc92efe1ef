{# Whether an event leaves a column as it was. #}
{% macro is_unchanged(column) -%}
    {{ adapter.part('parts', 'is_unchanged', column) }}
{%- endmacro %}
