{{
    config(
        materialized="state_table",
    )
}}

-- Only the shape: other_events finds out the log times of new payloads, and keeps them here before
-- anything is made of the payloads (dbt_lakehouse/build/other_events.py).
select
    cast(null as string) as topic,
    cast(null as int) as partition,
    cast(null as bigint) as offset,
    cast(null as timestamp) as log_time
from (select 1) as nothing
where false
