{# The assignments of an update that takes columns over. #}
{% macro set_columns(columns) -%}
    {{ adapter.part('parts', 'set_columns', columns) }}
{%- endmacro %}

{# Whether target and source differ in a column: of any type, and null is like null. #}
{% macro columns_differ(columns) -%}
    {{ adapter.part('parts', 'columns_differ', columns) }}
{%- endmacro %}
