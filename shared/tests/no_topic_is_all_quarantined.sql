{{ config(severity="warn") }}

{% set quarantined = {"quarantined": ref("quarantined_payloads")} %}
-- A topic of which nothing can be decoded is a setting that is wrong, or a source that has changed;
-- below the rate of all payloads it would not show.
select
    topic,
    payloads
from {{ dbt.sql_of_test("undecoded_topics", ref("other_events"), quarantined) }}
