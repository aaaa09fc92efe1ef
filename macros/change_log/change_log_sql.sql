{#
  The rows of a change log.

  Arguments:
      log: its declaration.
      change_events: the rows of change_events to make them from, as SQL of a relation.
      keys: the names that the events' record keys may have, a list for each; the query fails on
          others. None for any.
      places: a relation of events that get another log time (`placed_at`), or none for no such one.
      former: given if events with other keys come before all others (former_keys.sql): what fields
          of the key were called in those, by their names.
#}
{% macro change_log_sql(log, change_events, keys=[], places=none, former=none) -%}
    {%- set specs = log.columns -%}
    {%- set key_columns = [] if log.keyless else log.key -%}
    {%- set key_fields = specs | selectattr('column', 'in', key_columns)
        | map(attribute='field') | list -%}
    {%- set fields = [] -%}
    {%- for spec in specs -%}
        {%- do fields.append(spec['path'] if 'path' in spec else spec.field) -%}
    {%- endfor -%}
    {%- set has_former = former is not none -%}
    {%- set former_fields = (former or {}).values() | list -%}
    {%- set all_fields = fields + (former_fields | reject('in', fields) | list) -%}
    {%- set fields = tojson(
        [all_fields, key_fields + former_fields] + ([keys] if keys else [])
    ) -%}
    {%- set updates_keys = log.key and not log.keyless -%}
    {%- set rows = 'told' if updates_keys else 'compared' if log.key else 'typed' -%}
with change_events as (
    select * from {{ change_events }}
),

{% if places -%}
moved as (
    select
        change_events.* except (log_time),
        coalesce(places.placed_at, change_events.log_time) as log_time
    from change_events
    left join {{ places }} as places using (topic, partition, offset, event_index)
),

{% endif -%}
relevant as (
    select
        *
        {%- if updates_keys %},
        if(
            operation in ('insert', 'upsert') and contains(metadata, '"old_key":'),
            get_json_object(metadata, '$.old_key'),
            null
        ) as old_key,
        if(
            operation = 'delete' and contains(metadata, '"new_key":'),
            get_json_object(metadata, '$.new_key'),
            null
        ) as new_key
        {%- endif %}
    from {{ 'moved' if places else 'change_events' }}
    where
        operation in ('snapshot', 'insert', 'update', 'upsert', 'delete', 'truncate')
        {%- for condition in log.conditions %}
        and {{ condition }}
        {%- endfor %}
),

-- One parse for each image, into the exact text of the declared fields;
-- the types come from the text.
parsed as (
    select
        *,
        row_texts(
            {{ 'coalesce(before, old_key)' if updates_keys else 'before' }},
            after,
            record_key,
            {{ sql_text(fields) }}
        ) as row_texts
        {%- if log.partial %},
        json_object_keys(after) as after_names,
        json_object_keys(before) as before_names
        {%- endif %}
    from relevant
),

texts as (
    select
        *,
        {%- for spec in specs %}
        {% set shipped = _shipped_text(log, spec, loop.index0) -%}
        {% if spec.column in key_columns -%}
        coalesce(
            {{ _said(shipped) }},
            case
                when before is not null and {{ _is_unavailable('row_texts.after', loop.index0) }}
                    then {{ _said('row_texts.before[' ~ loop.index0 ~ ']') }}
            end,
            {{ _said('row_texts.key[' ~ key_columns.index(spec.column) ~ ']') }}
            {%- if has_former and spec.field in former %}
            {%- set name = former[spec.field] %},
            coalesce(row_texts.after, row_texts.before)[{{ all_fields.index(name) }}],
            row_texts.key[{{ key_columns | length + former_fields.index(name) }}]
            {%- endif %}
        )
        {%- elif log.key -%}
        case
            when {{ _is_unavailable('row_texts.after', loop.index0) }}
                then {{ _said('row_texts.before[' ~ loop.index0 ~ ']') }}
            else {{ _said(shipped) }}
        end
        {%- else -%}
        {{ shipped }}
        {%- endif %} as `shipped_{{ spec.column }}`{{ ',' if not loop.last }}
        {%- endfor %}
    from parsed
),

decoded as (
    select
        *,
        {%- for spec in specs %}
        {% if spec.encoding == 'hbase' -%}
        decode_hbase(`shipped_{{ spec.column }}`, '{{ spec.type }}') as `text_{{ spec.column }}`
        {%- else -%}
        `shipped_{{ spec.column }}` as `text_{{ spec.column }}`
        {%- endif %}
        {{- ',' if not loop.last }}
        {%- endfor %}
    from texts
),

{{ 'as_sent' if has_former else 'typed' }} as (
    select
        *,
        {%- for spec in specs %}
        {{ typed_value('`text_' ~ spec.column ~ '`', spec.type) }}
            as `value_{{ spec.column }}`{{ ',' if not loop.last }}
        {%- endfor %}
    from decoded
),
{%- if has_former %}

{{ former_keys_sql(log) }}
{%- endif %}

{% if log.key -%}
compared as (
    select
        *,
        {{ _unchanged_columns(log) | indent(8) }} as unchanged_columns,
        {{ _previous_key(log, has_former) | indent(8) }} as previous_key
        {%- if updates_keys %},
        {{ _key_before(log) | indent(8) }} as key_before
        {%- endif %}
    from typed
),

{% if updates_keys -%}
told as (
    select
        *,
        {{ _key_update(log) | indent(8) }} as key_update
    from compared
),

{% endif -%}
{% endif -%}
final as (
    select
        {%- for column in log.technical %}
        {{ column }},
        {%- endfor %}
        {%- for spec in specs %}
        `value_{{ spec.column }}` as `{{ spec.column }}`,
        {%- endfor %}
        {% if keys and not has_former -%}
        if(row_texts.has_other_key, {{ adapter.refusal_of_keys() }}, operation) as _operation,
        {%- else -%}
        operation as _operation,
        {%- endif %}
        occurred_at as _occurred_at,
        {{ event_position(rows) }} as _position,
        case
            when before is not null and row_texts.after is not null then array_remove(
                array(
                    {%- for spec in specs %}
                    if(
                        not row_texts.before[{{ loop.index0 }}]
                        <=> row_texts.after[{{ loop.index0 }}]
                        {%- if log.key %}
                        and not {{ _is_unavailable('row_texts.after', loop.index0) }}
                        {%- endif %}
                        {%- if log.partial %}
                        and array_contains(after_names, {{ sql_text(spec.field) }})
                        {%- endif %},
                        {{ sql_text(spec.column) }},
                        ''
                    ){{ ',' if not loop.last }}
                    {%- endfor %}
                ),
                ''
            )
        end as _changed_columns,
        {%- if log.key %}
        unchanged_columns as _unchanged_columns,
        previous_key as _previous_key,
        {%- elif log.partial %}
        {{ _unchanged_columns(log) | indent(8) }} as _unchanged_columns,
        {%- endif %}
        -- Asked first whether there is any: to filter takes longer than to type the values.
        case
            when
                {%- for spec in specs %}
                `shipped_{{ spec.column }}` is not null
                and `value_{{ spec.column }}` is null or
                {%- endfor %}
                row_texts.parts is not null
                {%- if updates_keys %}
                or array_contains(row_texts.after, '__debezium_unavailable_value')
                or array_contains(row_texts.before, '__debezium_unavailable_value')
                or key_update.key_before is not null
                {%- endif %}
                then filter(
                    array(
                        {%- for spec in specs %}
                        case
                            when
                                `shipped_{{ spec.column }}` is not null
                                and `value_{{ spec.column }}` is null
                                then named_struct(
                                    'column', {{ sql_text(spec.column) }},
                                    'text', `shipped_{{ spec.column }}`
                                )
                            -- What it is now nobody knows: in gold it stays what it was.
                            when row_texts.parts[{{ loop.index0 }}] is not null
                                then named_struct(
                                    'column', {{ sql_text(spec.column) }},
                                    'text', row_texts.parts[{{ loop.index0 }}]
                                )
                            {%- if updates_keys %}
                            when {{ _is_unknown(log, spec, loop.index0) }}
                                then named_struct(
                                    'column', {{ sql_text(spec.column) }},
                                    'text', '__debezium_unavailable_value'
                                )
                            {%- endif %}
                        end{{ ',' if not loop.last }}
                        {%- endfor %}
                    ),
                    misfit -> misfit is not null
                )
            else cast(array() as array<struct<column: string, text: string>>)
        end as _misfits,
        timestamp as _kafka_timestamp
    from {{ rows }}
)

select * from final
{%- endmacro %}

{#
  Whether an image has Debezium's placeholder for a value that was too large
  to be in the source's log.
#}
{% macro _is_unavailable(texts, index) -%}
    {{ texts }}[{{ index }}] <=> '__debezium_unavailable_value'
{%- endmacro %}

{# A text, or null where it is the placeholder. #}
{% macro _said(text) -%}
    nullif({{ text }}, '__debezium_unavailable_value')
{%- endmacro %}

{# The text of a column in the image that says it: of a full image, one that lacks it says null. #}
{% macro _shipped_text(log, spec, index) -%}
    {%- if log.partial -%}
        if(
            array_contains(after_names, {{ sql_text(spec.field) }}),
            row_texts.after[{{ index }}],
            row_texts.before[{{ index }}]
        )
    {%- else -%}
        coalesce(row_texts.after, row_texts.before)[{{ index }}]
    {%- endif -%}
{%- endmacro %}

{#
  The columns that a change leaves as they were without saying their values. No column is called '':
  Spark generates code to remove it from an array, and none for `filter`.
#}
{% macro _unchanged_columns(log) -%}
{%- set names -%}
array_remove(
    array(
        {%- for spec in log.columns %}
        {% if spec.column in log.key and not log.keyless -%}
        ''
        {%- else -%}
        case
            {%- if log.key %}
            when
                {{ _is_unavailable('row_texts.after', loop.index0) }}
                and `shipped_{{ spec.column }}` is null
                then {{ sql_text(spec.column) }}
            {%- endif %}
            {%- if log.partial %}
            when
                after is not null
                and not array_contains(after_names, {{ sql_text(spec.field) }})
                and not coalesce(array_contains(before_names, {{ sql_text(spec.field) }}), false)
                then {{ sql_text(spec.column) }}
            {%- endif %}
            else ''
        end
        {%- endif %}{{ ',' if not loop.last }}
        {%- endfor %}
    ),
    ''
)
{%- endset -%}
{%- if log.partial -%}
    {{ names }}
{%- else -%}
case
    when array_contains(row_texts.after, '__debezium_unavailable_value')
        then {{ names | indent(4) }}
    else cast(array() as array<string>)
end
{%- endif -%}
{%- endmacro %}

{#
  Whether nothing is known of a column: of the key, since nothing says it; of a row that is new or
  has a new key, since no row before it is known, or none has been looked up yet.
#}
{% macro _is_unknown(log, spec, index) -%}
    {%- set unavailable = _is_unavailable('row_texts.after', index) -%}
    {%- if spec.column in log.key -%}
    `shipped_{{ spec.column }}` is null
    and ({{ unavailable }} or {{ _is_unavailable('row_texts.before', index) }})
    {%- else -%}
    array_contains(unchanged_columns, {{ sql_text(spec.column) }})
    and (
        key_update.key_before is not null
        or (
            {{ unavailable }}
            and (operation in ('snapshot', 'insert') or previous_key is not null)
        )
    )
    {%- endif -%}
{%- endmacro %}
