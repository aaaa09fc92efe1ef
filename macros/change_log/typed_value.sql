{#
  A value of a declared type from its JSON text, or null if the text does not fit: nothing is rounded, cut or guessed.

  Arguments:
      text: a SQL expression, the value's JSON text with strings unquoted.
      type: a Spark SQL type in lower case.
#}
{% macro typed_value(text, type) -%}
    {%- if type == 'string' -%}
        {{ text }}
    {%- elif type == 'binary' -%}
        {#- The function alone passes over characters that are no base64. #}
        case when {{ text }} rlike '^[A-Za-z0-9+/]*={0,2}$' then try_to_binary({{ text }}, 'base64') end
    {%- elif type.startswith('decimal') -%}
        {%- set scale = type.split(',')[1].strip(' )') if ',' in type else '0' -%}
        case when {{ _fraction_digits(text) }} <= {{ scale }} then try_cast({{ text }} as {{ type }}) end
    {%- elif type in ['timestamp', 'timestamp_ntz'] -%}
        case when {{ _fraction_digits(text) }} <= 6 then try_cast({{ text }} as {{ type }}) end
    {%- elif type.startswith('array<') -%}
        {{ _collection_value(text, type, 'array<string>', '{}') }}
    {%- elif type.startswith('map<string,') -%}
        {{ _collection_value(text, type, 'map<string,string>', 'map_values({})') }}
    {%- elif type in ['boolean', 'tinyint', 'smallint', 'int', 'bigint', 'float', 'double', 'date'] -%}
        try_cast({{ text }} as {{ type }})
    {%- else -%}
        {%- do exceptions.raise_compiler_error(
            "a change log column can't have type '" ~ type ~ "': use a scalar type, array<...>, map<string,...>, or"
            ~ " string for JSON text"
        ) -%}
    {%- endif -%}
{%- endmacro %}

{# Digits behind the point but trailing zeros; those of numbers with an exponent are left to the cast. #}
{% macro _fraction_digits(text) -%}
    length(regexp_extract({{ text }}, '\\.([0-9]*?)0*(?:[^0-9].*)?$', 1))
{%- endmacro %}

{# An array or map, unless one of its elements would be lost: from_json makes null of an element that doesn't fit. #}
{% macro _collection_value(text, type, text_type, elements) -%}
    {%- set count = "size(filter({}, element -> element is not null))" -%}
    case
        when
            {{ count.format(elements.format("from_json(" ~ text ~ ", '" ~ type ~ "')")) }}
            = {{ count.format(elements.format("from_json(" ~ text ~ ", '" ~ text_type ~ "')")) }}
            then from_json({{ text }}, '{{ type }}')
    end
{%- endmacro %}
