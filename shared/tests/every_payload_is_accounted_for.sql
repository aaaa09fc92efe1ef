{{ config(tags=["nightly"]) }}

-- Nothing is lost between bronze and silver: every payload has events, numbered from 0 without a
-- gap, each once in other_events or in change logs, and no event has come from anywhere else.
-- Payloads that have landed since the run has read bronze are the next one's; those of logs that
-- have not read as far yet are theirs.
{% set events = ref("other_events") %}
{% set bronze = source("bronze", "raw_payloads") %}
{% set payloads = dbt.sql_of_test("as_read", bronze, {"reader": events}) %}
with payloads as (
    select
        topic,
        partition,
        offset
    from {{ payloads }}
),

events as (
    select
        topic,
        partition,
        offset,
        event_index,
        count(*) = count(distinct place) as is_once,
        count(distinct place) = 1
        or not bool_or(place = 'other_events' and not is_shared) as is_in_one
    from {{ dbt.sql_of_test("events_in_place", events, {"payloads": payloads}) }}
    group by topic, partition, offset, event_index
),

counted as (
    select
        topic,
        partition,
        offset,
        count(*) as events,
        min(event_index) as first_index,
        max(event_index) as last_index,
        bool_and(is_once and is_in_one) as are_in_place
    from events
    group by topic, partition, offset
),

final as (
    select
        coalesce(payloads.topic, counted.topic) as topic,
        coalesce(payloads.partition, counted.partition) as partition,
        coalesce(payloads.offset, counted.offset) as offset,
        counted.events
    from payloads
    full join counted
        on
            payloads.topic = counted.topic
            and payloads.partition = counted.partition
            and payloads.offset = counted.offset
    where
        payloads.topic is null
        or counted.topic is null
        or counted.first_index <> 0
        or counted.last_index <> counted.events - 1
        or not counted.are_in_place
)

select * from final
