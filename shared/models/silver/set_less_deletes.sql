{{ config(materialized="append_only") }}

with other_events as (
    select * from {{ dbt.new_rows(ref("other_events"), wanted="set_less_deletes") }}
),

final as (
    select
        source_schema as _namespace,
        get_json_object(record_key, '$.digest') as _digest,
        operation as _operation,
        occurred_at as _occurred_at,
        {{ dbt.event_position("other_events") }} as _position,
        timestamp as _kafka_timestamp
    from other_events
    where
        format in ('aerospike_messagepack', 'aerospike_json', 'aerospike_flat_json')
        and operation = 'delete'
        and source_table is null
)

select * from final
