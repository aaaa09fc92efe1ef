{# Parts of the statements of key updates (dbt_lakehouse/build/key_updates.py). #}

{# A row of the log as a text. #}
{% macro place() %}
concat_ws(':', _position.partition, _position.offset, _position.event_index, _position.topic)
{%- endmacro %}

{# The condition that a relation has the old key of another. #}
{% macro has_old_key(key, relation, update) %}
{% for column in key %}
{{ relation }}.{{ column }} = {{ update }}._key_update.key_before.{{ column }}
{{- ' and ' if not loop.last }}
{%- endfor %}
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
