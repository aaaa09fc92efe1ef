{{ config(tags=["nightly"]) }}

{% set reader = {"reader": ref("other_events")} %}
-- Within a partition the log time never goes back, so log order is the order of the offsets.
with payloads as (
    select
        payloads.topic,
        payloads.partition,
        payloads.offset,
        coalesce(log_times.log_time, payloads.timestamp) as log_time
    from {{ dbt.sql_of_test("as_read", source("bronze", "raw_payloads"), reader) }} as payloads
    left join {{ ref("log_times") }} as log_times using (topic, partition, offset)
),

followed as (
    select
        *,
        lag(log_time) over (
            partition by topic, partition
            order by offset
        ) as previous_log_time
    from payloads
)

select * from followed
where log_time < previous_log_time
