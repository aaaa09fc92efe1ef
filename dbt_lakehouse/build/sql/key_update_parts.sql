{# Parts of the statements of key updates (dbt_lakehouse/build/key_updates.py). #}

{# A row of the log as a text. #}
{% macro place() %}
concat_ws(':', _position.partition, _position.offset, _position.event_index, _position.topic)
{%- endmacro %}

{#
  A known value, with its text if that does not fit the column; a value of another row; or, with
  neither, an unknown value.
#}
{% macro value_before(value=none, rests_on=none, misfit=none) %}
named_struct(
    'is_known', {{ 'true' if value else 'false' }},
    'value', {{ value or 'null' }},
    'rests_on', {{ rests_on or 'cast(null as string)' }},
    'text',
    {% if misfit %}
    try_element_at(
        filter(_misfits, misfit -> misfit.column = {{ misfit.strip('`') | literal }}), 1
    ).text
    {% else %}
    cast(null as string)
    {% endif %}
)
{%- endmacro %}
