{{ config(severity="warn") }}

-- A topic of which nothing can be decoded is a setting that is wrong, or a source that has changed;
-- below the rate of all payloads it would not show.
select
    topic,
    payloads
from {{ dbt.undecoded_topics(ref("other_events"), ref("quarantined_payloads")) }}
