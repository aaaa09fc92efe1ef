{# The moment that a gold table was last built for, as text: what its tests judge expiry by. #}
{% macro built_as_of(relation) -%}
    {%- set table = adapter.look_at_table(relation) if execute -%}
    {{ (table.noted('lakehouse.as_of') if table) or dbt.as_of_text() }}
{%- endmacro %}
