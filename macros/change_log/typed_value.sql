{#
  A value of a declared type from its JSON text, or null if the text does not fit: nothing is
  rounded, cut or guessed. Spark's casts alone are too kind: `19754` would be a date in that year,
  `10:00:00` a time of today.

  Arguments:
      text: a SQL expression, the value's JSON text with strings unquoted.
      type: a Spark SQL type in lower case.
#}
{% macro typed_value(text, type) -%}
    {%- set date = '[+-]?[0-9]{4,}-[0-9]{2}-[0-9]{2}' -%}
    {%- set date_time = date ~ '[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]{0,6}0*)?)?' -%}
    {%- if type == 'string' -%}
        {{ text }}
    {%- elif type == 'binary' -%}
        {{ _if_shaped(text, '[A-Za-z0-9+/]*={0,2}', "try_to_binary(" ~ text ~ ", 'base64')") }}
    {%- elif type.startswith('decimal') -%}
        {%- set scale = type.split(',')[1].strip(' )') if ',' in type else '0' -%}
        {%- set mantissa = 'substring_index(lower(' ~ text ~ "), 'e', 1)" -%}
        {%- set exponent = 'try_cast(substring_index(lower(' ~ text ~ "), 'e', -1) as int)" -%}
        {#- By contains and substring_index: a regular expression takes longer than the rest of a
            row's values. -#}
        case
            when contains({{ text }}, 'e') or contains({{ text }}, 'E')
                -- Java writes out all digits of a number,
                -- so one with a far exponent would take minutes.
                then case
                    when
                        {{ exponent }} between -999 and 999
                        and (
                            length(trim(trailing '0' from replace({{ mantissa }}, '.', '')))
                            - length(substring_index({{ mantissa }}, '.', 1)) - {{ exponent }}
                            <= {{ scale }}
                            or trim(both '-.0' from {{ mantissa }}) = ''
                        )
                        then try_cast({{ text }} as {{ type }})
                end
            when
                not contains({{ text }}, '.')
                or length(trim(trailing '0 ' from substring_index({{ text }}, '.', -1)))
                <= {{ scale }}
                then try_cast({{ text }} as {{ type }})
        end
    {%- elif type == 'date' -%}
        {{ _if_shaped(text, date, 'try_cast(' ~ text ~ ' as date)') }}
    {%- elif type == 'timestamp_ntz' -%}
        {{ _if_shaped(text, date_time, 'try_cast(' ~ text ~ ' as timestamp_ntz)') }}
    {%- elif type == 'timestamp' -%}
        {%- set zone = '(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)' -%}
        {{ _if_shaped(text, date_time ~ zone, 'try_cast(' ~ text ~ ' as timestamp)') }}
    {%- elif type in ['float', 'double'] -%}
        {#- A number beyond the type is no infinity; the texts of infinities and NaN have an n. 17
            digits tell each double from all others, 9 each float: a number of more is another one,
            but for floats that are written as doubles. -#}
        {%- set value = 'try_cast(' ~ text ~ ' as ' ~ type ~ ')' -%}
        {%- set digits = "trim(both '0' from translate(substring_index(lower(" ~ text
            ~ "), 'e', 1), '+-. ', ''))" -%}
        case
            when contains(lower({{ text }}), 'n') then {{ value }}
            when
                abs({{ value }}) < double('infinity')
                {%- if type == 'float' %}
                and (
                    length({{ digits }}) <= 9
                    or try_cast({{ text }} as double) = cast({{ value }} as double)
                )
                {%- else %}
                and (length({{ text }}) <= 17 or length({{ digits }}) <= 17)
                {%- endif %}
                then {{ value }}
        end
    {%- elif type in ['boolean', 'tinyint', 'smallint', 'int', 'bigint'] -%}
        try_cast({{ text }} as {{ type }})
    {%- elif type == 'array<string>' -%}
        json_elements({{ text }})
    {%- elif type == 'map<string,string>' -%}
        json_entries({{ text }})
    {%- elif type.startswith('array<') -%}
        {%- set element = typed_value('element', type[6:-1].strip()) -%}
        case
            when
                forall(
                    json_elements({{ text }}),
                    element -> element is null or ({{ element }}) is not null
                )
                then transform(json_elements({{ text }}), element -> {{ element }})
        end
    {%- elif type.startswith('map<string,') -%}
        {%- set element = typed_value('element', type[11:-1].strip()) -%}
        case
            when
                forall(
                    map_values(json_entries({{ text }})),
                    element -> element is null or ({{ element }}) is not null
                )
                then transform_values(json_entries({{ text }}), (name, element) -> {{ element }})
        end
    {%- else -%}
        {%- do exceptions.raise_compiler_error(
            "a change log column can't have type '" ~ type ~ "': use a scalar type, array<scalar>,"
            ~ " map<string,scalar>, or string for JSON text"
        ) -%}
    {%- endif -%}
{%- endmacro %}

{# An expression's value if the whole text has a shape, else null. #}
{% macro _if_shaped(text, pattern, value) -%}
    case when {{ text }} rlike '^{{ pattern }}$' then {{ value }} end
{%- endmacro %}
