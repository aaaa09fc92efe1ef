{# The key that an update has replaced; of a keyless table, the row. #}
{% macro _previous_key(log, has_former) -%}
{%- set specs = log.columns | selectattr('column', 'in', log.key) | list -%}
case
    {%- if log.keyless %}
    when operation = 'update' and row_texts.before is not null
    {%- else %}
    when
        operation = 'update'
        {%- if has_former %}
        and not is_apart
        {%- endif %}
        and (
            {%- for spec in specs %}
            not {{ _previous_value(log, spec, has_former) }} <=> `value_{{ spec.column }}`
            {{- ' or' if not loop.last }}
            {%- endfor %}
        )
    {%- endif %}
        then named_struct(
            {%- for spec in specs %}
            {{ sql_text(spec.column) }},
            {{ _previous_value(log, spec, has_former) }}{{ ',' if not loop.last }}
            {%- endfor %}
        )
end
{%- endmacro %}

{#
  A key column's value before an update; where the image before has none, that of the events before
  (has_former), else that after it.
#}
{% macro _previous_value(log, spec, has_former) -%}
    {%- set text = 'row_texts.before[' ~ log.columns.index(spec) ~ ']' -%}
    {%- set before = typed_value(text if log.keyless else _said(text), spec.type) -%}
    {%- if log.keyless -%}
        {{ before }}
    {%- elif spec.encoding -%}
        `value_{{ spec.column }}`
    {%- else -%}
        coalesce(
            {{ before }},
            {%- if has_former %}
            `former_{{ spec.column }}`,
            {%- endif %}
            `value_{{ spec.column }}`
        )
    {%- endif -%}
{%- endmacro %}

{# The key that an insert's row had before a key update, as a header names it. #}
{% macro _key_before(log) -%}
{%- set specs = log.columns | selectattr('column', 'in', log.key) | list -%}
case
    when
        old_key is not null
        {%- for spec in specs %}
        and {{ _old_value(log, spec) }} is not null
        {%- endfor %}
        then named_struct(
            {%- for spec in specs %}
            {{ sql_text(spec.column) }}, {{ _old_value(log, spec) }}{{ ',' if not loop.last }}
            {%- endfor %}
        )
end
{%- endmacro %}

{# A key column's value in the header that names the old key. #}
{% macro _old_value(log, spec) -%}
    {{ typed_value(_said('row_texts.before[' ~ log.columns.index(spec) ~ ']'), spec.type) }}
{%- endmacro %}

{#
  What an event says of a key update (macros/change_log/key_updates.sql): `id`, which its delete and
  its insert share, and of a source's change `change`; of the insert, the `key_before` that its row
  had, and the `columns` that are as they were there. Null for all other events.
#}
{% macro _key_update(log) -%}
case
    when key_before is not null or new_key is not null then named_struct(
        'id',
        md5(concat_ws(' ', coalesce(old_key, record_key), coalesce(new_key, record_key))),
        'change',
        -- What the transform adds to a row, a null value of the same change lacks.
        if(
            format like 'debezium_unwrapped_%',
            null,
            md5(get_json_object(metadata, '$.source'))
        ),
        'key_before', key_before,
        'columns', if(key_before is not null, unchanged_columns, null)
    )
end
{%- endmacro %}
