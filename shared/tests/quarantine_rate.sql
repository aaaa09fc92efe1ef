{{ config(severity="warn") }}

-- Bad payloads never stop a run, but too many of them mean that a source or a setting has changed.
with payloads as (
    select
        count(distinct topic, partition, offset) as total,
        count(distinct case when operation = 'invalid' then struct(topic, partition, offset) end)
            as quarantined
    from {{ ref("change_events") }}
)

select * from payloads
where quarantined > total * {{ var("max_quarantine_rate", 0.05) }}
