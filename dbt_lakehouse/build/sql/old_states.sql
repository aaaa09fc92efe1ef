{#
  The states of `deleted_keys` that a purge forgets: those that were recorded longer ago than they
  are kept. Deletes without a set stay for tables that have not read them.

  Arguments:
      deleted_keys: the table.
      as_of: the moment of the run.
      seconds: for how long they are kept.
      sequence: the sequence number up to which all tables of namespaces have read the table.
#}
select *, _last_updated_sequence_number as _sequence
from {{ deleted_keys }}
where
    recorded_at < timestamp '{{ as_of }}' - make_dt_interval(0, 0, 0, {{ seconds }})
    and scope not like 'truncated:%'
    and (scope not like 'aerospike:%' or _last_updated_sequence_number <= {{ sequence }})
