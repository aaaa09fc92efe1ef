{# The columns as an array of texts, each by itself: null and absent are the same. #}
{% macro column_texts(relation, columns) -%}
    cast(array(
        {%- for column in columns %}
        {{ dbt.exact_json('struct(' ~ relation ~ '.' ~ column ~ ')') }}{{ ', ' if not loop.last }}
        {% endfor -%}
    ) as array<string>)
{%- endmacro %}
