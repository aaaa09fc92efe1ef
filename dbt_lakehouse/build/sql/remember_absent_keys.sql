{#
  Save the state of keys that are absent after the run, so that a late older write can't bring them
  back. A key that is live again keeps its old entry, which its gold row outranks, until the entry
  is purged.

  A key that is absent again, or still, gets a further entry, which is no older than its others: the
  newest one counts.

  Arguments:
      deleted_keys: the table that keeps them, under `scope`.
      states: SQL as of absent_states.
      as_of: the moment of the run.
#}
insert into {{ deleted_keys }}
    (scope, record_key, max_occurred_at, position, null_position, source_place, recorded_at)
select
    {{ scope | literal }},
    record_key,
    max_occurred_at,
    position,
    null_position,
    source_place,
    timestamp '{{ as_of }}'
from (
    {{ states | indent }}
    where not _lh_live
)
