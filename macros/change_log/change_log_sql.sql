{#
  The rows of a change log.

  Arguments:
      log: its declaration.
      events: its events with their rows, as log_events or typed_events gives them; the latter if
          events with other keys come before all others.
      keys: the names that the events' record keys may have, a list for each; the query fails on
          others. None for any.
      places: a relation of events that get another log time (`placed_at`), or none for no such one.
      former: given if events with other keys come before all others (former_keys.sql): what fields
          of the key were called in those, by their names.
#}
{% macro change_log_sql(log, events, keys=[], places=none, former=none) -%}
    {%- set has_former = former is not none -%}
    {%- set key_columns = [] if log.keyless else log.key -%}
    {%- set rows = 'typed' if has_former else 'decoded' -%}
with {% if places -%}
read as (
    select * from {{ events }}
),

decoded as (
    select
        read.* except (log_time),
        coalesce(places.placed_at, read.log_time) as log_time
    from read
    left join {{ places }} as places using (topic, partition, offset, event_index)
),

{% else -%}
decoded as (
    select * from {{ events }}
),

{% endif -%}
{% if has_former -%}
{{ dbt.former_keys_sql(log) }}

{% endif -%}
{% if key_columns -%}
told as (
    select
        *,
        {{ dbt._key_update() | indent(8) }} as key_update
    from {{ rows }}
),

{%- set rows = 'told' %}

{% endif -%}
final as (
    select
        {%- for column in log.technical %}
        {{ column }},
        {%- endfor %}
        {%- for column in dbt.quoted(log.columns | map(attribute='column')) %}
        {% if has_former and log.columns[loop.index0].column in log.key -%}
        `value_{{ log.columns[loop.index0].column }}` as {{ column }},
        {%- else -%}
        change.{{ column }} as {{ column }},
        {%- endif %}
        {%- endfor %}
        {% if keys and not has_former -%}
        if(change._has_other_key, {{ adapter.refusal_of_keys() }}, operation) as _operation,
        {%- else -%}
        operation as _operation,
        {%- endif %}
        occurred_at as _occurred_at,
        {{ dbt.event_position(rows) }} as _position,
        change._changed_columns as _changed_columns,
        {%- if log.key or log.partial %}
        change._unchanged_columns as _unchanged_columns,
        {%- endif %}
        {%- if log.key %}
        {{ 'previous_key' if has_former else 'change._previous_key' }} as _previous_key,
        {%- endif %}
        {{ dbt._misfits_of_former(log) | indent(8) if has_former else 'change._misfits' }}
            as _misfits,
        timestamp as _kafka_timestamp
    from {{ rows }}
)

select * from final
{%- endmacro %}

{#
  What an event says of a key update (macros/change_log/key_updates.sql): `id`, which its delete and
  its insert share, and of a source's change `change`; of the insert, the `key_before` that its row
  had, and the `columns` that are as they were there. Null for all other events.

  `change` is of Spark's own text of the source, not of the function's: rows of both may be there.
#}
{% macro _key_update() -%}
case
    when change._key_update is not null then named_struct(
        'id', change._key_update.id,
        'change',
        -- What the transform adds to a row, a null value of the same change lacks.
        if(
            format like 'debezium_unwrapped_%',
            null,
            md5(get_json_object(metadata, '$.source'))
        ),
        'key_before', change._key_update.key_before,
        'columns', change._key_update.columns
    )
end
{%- endmacro %}
