{{ config(severity="warn") }}

{% set payloads = {"payloads": source("bronze", "raw_payloads")} %}
-- In a compacted topic a tombstone may be all that is left of a delete: if the topic is not marked
-- compacted, the row stays.
select
    topic,
    tombstones,
    partition,
    offset
from {{ dbt.sql_of_test("topics_that_look_compacted", ref("other_events"), payloads) }}
