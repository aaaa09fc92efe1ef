{{ config(tags=["nightly"]) }}

-- Within a partition the log time never goes back, so log order is the order of the offsets.
with events as (
    select
        topic,
        partition,
        offset,
        log_time,
        lag(log_time) over (
            partition by topic, partition
            order by offset, event_index
        ) as previous_log_time
    from {{ dbt.added_rows(ref("change_events")) }}
)

select * from events
where log_time < previous_log_time
