{{
    config(
        materialized="append_only",
    )
}}

{% set raw_payloads = source("bronze", "raw_payloads") %}
{% set new_events = dbt.new_rows(ref("other_events"), wanted="invalid") %}
with invalid_events as (
    select
        topic,
        partition,
        offset,
        event_index,
        timestamp,
        format,
        error_code,
        error_detail
    from {{ new_events }}
    where operation = 'invalid'
),

raw_payloads as (
    select * from {{ raw_payloads }}
    {% if dbt.is_building() and adapter.run_of(this).has_news
        and adapter.is_worth_a_question(raw_payloads) -%}
    where
        {{ dbt.is_near_positions(
            "(select * from " ~ new_events ~ " where operation = 'invalid')"
        ) }}
    {%- endif %}
),

final as (
    select
        invalid_events.topic,
        invalid_events.partition,
        invalid_events.offset,
        invalid_events.event_index,
        invalid_events.timestamp,
        invalid_events.format,
        invalid_events.error_code,
        invalid_events.error_detail,
        raw_payloads.key,
        raw_payloads.value
    from invalid_events
    inner join raw_payloads using (topic, partition, offset)
)

select * from final
