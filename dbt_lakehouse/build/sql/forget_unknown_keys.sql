{#
  Remove the states of keys that the log does not have, or no longer has. It is separate from the
  MERGE of reset_absent_keys.sql, whose condition would then cover all tables' states and so
  conflict with their models.

  Arguments:
      deleted_keys: the table that keeps them, under `scope`.
      fold: the Fold, without columns.
      log, deletes: as in event_parts.log_events.
#}
delete from {{ deleted_keys }}
where
    scope = {{ scope | literal }}
    and not exists (
        select 1
        from (
            select {{ parts.record_key(fold.key) | indent(12) }} as known_key
            from ({{ event_parts.log_events(fold, log, deletes) | indent(12) }})
        )
        where known_key = record_key
    )
