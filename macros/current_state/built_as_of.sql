{# The moment that a gold table was last built for, as text: what its tests judge expiry by. #}
{% macro built_as_of(relation) -%}
    {{ _properties(relation).get('lakehouse.as_of', as_of_text()) if execute else as_of_text() }}
{%- endmacro %}
