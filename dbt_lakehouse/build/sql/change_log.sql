{#
  The rows of a change log.

  Arguments:
      log: its declaration.
      events: its events with their rows, of log_events.
      refusal: SQL that fails in place of the operation of an event whose record key has names other
          than the allowed ones; none if all are allowed.
      places: a relation of events that get another log time (`placed_at`), or none.
      has_former: whether events with other keys come before all others (former_keys).
#}
{% set rows = 'typed' if has_former else 'decoded' %}
{% set place = 'change._lh_source_place' if 'order_by' in log %}
with
{% if places %}
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

{% else %}
decoded as (
    select * from {{ events }}
),

{% endif %}
{% if has_former %}
{{ former_key_parts.steps(log, place) }}

{% endif %}
{% if log.key and not log.keyless %}
{#
  The key update of an event (build/key_updates.py): `id`, which its delete and its insert share,
  and `change`, the change at the source; for the insert also the row's `key_before`, and the
  `columns` that are unchanged since. Null for all other events.

  `change` is computed from Spark's own text of the source, not from the function's, because rows
  of both may exist.
#}
told as (
    select
        *,
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
        end as key_update
    from {{ rows }}
),

{% set rows = 'told' %}
{% endif %}
final as (
    select
        {{ log.technical | lines_with_commas | indent(8) }}
        {% for spec in log.columns %}
        {% if has_former and spec.column in log.key %}
        `value_{{ spec.column }}` as `{{ spec.column }}`,
        {% else %}
        change.`{{ spec.column }}` as `{{ spec.column }}`,
        {% endif %}
        {% endfor %}
        {% if refusal and not has_former %}
        if(change._lh_has_other_key, {{ refusal }}, operation) as _operation,
        {% else %}
        operation as _operation,
        {% endif %}
        occurred_at as _occurred_at,
        {{ payload_parts.event_position(rows, place) | indent(8) }}
            as _position,
        change._changed_columns as _changed_columns,
        {{ 'change._unchanged_columns as _unchanged_columns,' if log.key or log.partial }}
        {% if log.key %}
        {{ 'previous_key' if has_former else 'change._previous_key' }} as _previous_key,
        {% endif %}
        {{ former_key_parts.misfits(log) | indent(8) if has_former else 'change._misfits' }}
            as _misfits,
        timestamp as _kafka_timestamp
    from {{ rows }}
)

select * from final
