{{
    config(
        unique_key=["topic", "partition", "offset", "event_index"],
    )
}}

{% set new_payloads = new_rows(source("bronze", "raw_payloads")) %}
{% set carried = carried_log_times(new_payloads) %}
with payloads as (
    select
        topic,
        partition,
        offset,
        timestamp,
        key,
        value
    from {{ new_payloads }}
),

{% if carried %}
-- What earlier runs have given to the partitions that have new payloads, of which each comes after.
given as (
    select
        carried.topic,
        carried.partition,
        cast(-1 as bigint) as offset,
        carried.given_log_time
    from (
        values
        {% for each in carried -%}
        ({{ each.topic }}, {{ each.partition }}, {{ each.log_time }}){{ "," if not loop.last }}
        {% endfor %}
    ) as carried (topic, partition, given_log_time)
),

{% elif carried is none and is_incremental() %}
-- What earlier runs have given to the partitions that have new payloads. Payloads that come after
-- later offsets of their partition (captures landed out of order) must not get a log time above
-- that of the offsets behind them. Nothing is lost by this window: it adds no payloads.
first_offsets as (
    select
        topic,
        partition,
        min(offset) as first_offset
    from payloads
    group by topic, partition
),

earlier_events as (
    select
        earlier.topic,
        earlier.partition,
        case
            when earlier.offset < first_offsets.first_offset then -1
            else earlier.offset
        end as offset,
        earlier.log_time
    from {{ this }} as earlier
    inner join first_offsets using (topic, partition)
),

given as (
    select
        topic,
        partition,
        offset,
        max(log_time) as given_log_time
    from earlier_events
    group by topic, partition, offset
),

{% endif %}
timeline as (
    select
        topic,
        partition,
        offset,
        timestamp as seen,
        timestamp,
        cast(null as timestamp) as given_log_time
    from payloads
    {% if carried or (carried is none and is_incremental()) %}
    union all
    select
        topic,
        partition,
        offset,
        given_log_time as seen,
        cast(null as timestamp) as timestamp,
        given_log_time
    from given
    {% endif %}
),

log_times as (
    select
        topic,
        partition,
        offset,
        timestamp,
        given_log_time,
        least(
            max(seen) over (
                partition by topic, partition
                order by offset
                rows between unbounded preceding and current row
            ),
            -- The rows behind, as the rows before in the other order: Spark computes a frame
            -- that has no end anew for every row.
            min(given_log_time) over (
                partition by topic, partition
                order by offset desc
                rows between unbounded preceding and 1 preceding
            )
        ) as log_time
    from timeline
),

-- Few timestamps lie behind an earlier one: joining only those back spares a shuffle of all
-- payloads.
corrections as (
    select
        topic,
        partition,
        offset,
        log_time
    from log_times
    where given_log_time is null and not log_time <=> timestamp
),

decoded as (
    select * from {{ decoded_events("payloads") }}
),

final as (
    select
        decoded.topic,
        decoded.partition,
        decoded.offset,
        decoded.event_index,
        decoded.timestamp,
        coalesce(corrections.log_time, decoded.timestamp) as log_time,
        decoded.format,
        decoded.operation,
        decoded.source_database,
        decoded.source_schema,
        decoded.source_table,
        decoded.record_key,
        decoded.before,
        decoded.after,
        decoded.occurred_at,
        decoded.expires_at,
        decoded.metadata,
        decoded.error_code,
        decoded.error_detail
    from decoded
    left join corrections
        on
            decoded.topic = corrections.topic
            and decoded.partition = corrections.partition
            and decoded.offset = corrections.offset
)

select * from final
