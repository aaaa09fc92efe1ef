{{ config(tags=["nightly"]) }}

-- Nothing is lost between bronze and silver: every payload has events, numbered from 0 without a
-- gap, and no event has come from anywhere else. Payloads that have landed since the run has read
-- bronze are the next one's.
with payloads as (
    select
        topic,
        partition,
        offset
    from {{ dbt.as_read(source("bronze", "raw_payloads"), ref("change_events")) }}
),

events as (
    select
        topic,
        partition,
        offset,
        count(*) as events,
        count(distinct event_index) as event_indexes,
        min(event_index) as first_index,
        max(event_index) as last_index
    from {{ dbt.added_rows(ref("change_events")) }}
    -- What tombstones of compacted topics stand for is found out behind the decoding.
    where not metadata <=> '{"compacted":true}'
    group by topic, partition, offset
),

final as (
    select
        coalesce(payloads.topic, events.topic) as topic,
        coalesce(payloads.partition, events.partition) as partition,
        coalesce(payloads.offset, events.offset) as offset,
        events.events
    from payloads
    full join events
        on
            payloads.topic = events.topic
            and payloads.partition = events.partition
            and payloads.offset = events.offset
    where
        payloads.topic is null
        or events.topic is null
        or events.first_index <> 0
        or events.last_index <> events.events - 1
        or events.event_indexes <> events.events
)

select * from final
