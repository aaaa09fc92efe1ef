{#
  Aerospike's deletes without a set.

  Arguments:
      events: the new rows of other_events.
      formats: those of records.
#}
with other_events as (
    select * from {{ events }}
),

final as (
    select
        source_schema as _namespace,
        get_json_object(record_key, '$.digest') as _digest,
        operation as _operation,
        occurred_at as _occurred_at,
        {{ payload_parts.event_position('other_events') | indent(8) }} as _position,
        timestamp as _kafka_timestamp
    from other_events
    where
        format in ({{ formats | map('literal') | join(', ') }})
        and operation = 'delete'
        and source_table is null
)

select * from final
