{#
  The states of `deleted_keys` that a purge removes: those recorded before the retention time.
  Deletes without a set stay for tables that have not read them.

  Arguments:
      deleted_keys: the table.
      as_of: the moment of the run.
      seconds: the retention time.
      sequence: the sequence number up to which all tables of namespaces have read the table.
#}
select *, _last_updated_sequence_number as _lh_sequence
from {{ deleted_keys }}
where
    recorded_at < timestamp '{{ as_of }}' - make_dt_interval(0, 0, 0, {{ seconds }})
    and scope not like 'truncated:%'
    and (scope not like 'aerospike:%' or _last_updated_sequence_number <= {{ sequence }})
