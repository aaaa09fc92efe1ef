{# The places in the array of those columns that an event leaves as they were. #}
{% macro unchanged_places(columns) -%}
    cast(filter(array(
        {%- for column in columns -%}
        if({{ dbt.is_unchanged(column) }}, {{ loop.index0 }}, null){{ ', ' if not loop.last }}
        {%- endfor -%}
    ), place -> place is not null) as array<int>)
{%- endmacro %}
