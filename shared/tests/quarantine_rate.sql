{{ config(severity="warn") }}

-- Bad payloads never stop a run, but too many of them mean that a source or a setting has changed.
-- The number of all is in the metadata of their table.
with payloads as (
    select count(*) as total from {{ source("bronze", "raw_payloads") }}
),

quarantined as (
    select count(distinct topic, partition, offset) as bad from {{ ref("quarantined_payloads") }}
),

final as (
    select
        payloads.total,
        quarantined.bad
    from payloads
    cross join quarantined
)

select * from final
where bad > total * {{ var("max_quarantine_rate", 0.05) }}
