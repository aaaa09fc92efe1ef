{#
  The rows of source tables that full snapshots have marked as their first or last, with their
  payloads' metadata.

  Arguments:
      events: the events of these rows, to select from.
      mark: SQL of the mark.
#}
select
    topic,
    partition,
    offset,
    timestamp,
    unix_micros(log_time) as log_time,
    format,
    source_database,
    source_schema,
    source_table,
    occurred_at,
    metadata,
    {{ mark }} as mark
from {{ events }}
-- What has no place in the log order is before all else in it.
where log_time is not null
