{{ config(tags=["nightly"]) }}

-- For each position, changes + tombstones + messages + schema changes + invalid events are all that
-- other_events has of it, every invalid event is quarantined with its raw bytes, and only invalid
-- events carry an error.
with events as (
    select
        topic,
        partition,
        offset,
        count(*) as events,
        count_if(
            operation in ('snapshot', 'insert', 'update', 'upsert', 'delete', 'truncate')
        ) as changes,
        count_if(operation = 'tombstone') as tombstones,
        count_if(operation = 'message') as messages,
        count_if(operation = 'schema_change') as schema_changes,
        count_if(operation = 'invalid') as invalid,
        count_if(error_code is not null and error_detail is not null) as errors
    from {{ dbt.sql_of_test("added_rows", ref("other_events")) }}
    group by topic, partition, offset
),

quarantined as (
    select
        topic,
        partition,
        offset,
        count(*) as payloads
    from {{ ref("quarantined_payloads") }}
    group by topic, partition, offset
),

final as (
    select
        events.*,
        quarantined.payloads
    from events
    left join quarantined using (topic, partition, offset)
    where
        changes + tombstones + messages + schema_changes + invalid <> events
        or invalid <> errors
        or invalid <> coalesce(quarantined.payloads, 0)
)

select * from final
