{{ config(severity="warn") }}

-- In a compacted topic a tombstone may be all that is left of a delete: where nobody says that the
-- topic is one, its row stays.
select
    topic,
    tombstones,
    partition,
    offset
from {{ dbt.topics_that_look_compacted(ref("other_events")) }}
