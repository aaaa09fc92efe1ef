{# Whether an event is none of another source table's truncates than the row before it came from. #}
{% macro is_effective(fold) -%}
    {{ adapter.part('parts', 'is_effective', fold.key) }}
{%- endmacro %}

{# Whether the row that an event finds has expired. #}
{% macro begins_life(key_list, order) -%}
    {{ adapter.part('parts', 'begins_life', [key_list], order) }}
{%- endmacro %}

{# Whether an event leaves a column as it was. #}
{% macro is_unchanged(column) -%}
    {{ adapter.part('parts', 'is_unchanged', column) }}
{%- endmacro %}
