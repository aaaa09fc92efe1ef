{#
  The absent keys, as of keys_hit_by_deletes, of which nothing is remembered any more.

  Arguments:
      log: the log, to select from.
      deletes: SQL as of event_parts.remembered_deletes.
      horizon: the purge horizon, as text.
#}
-- What is remembered of the others was purged.
select _digest
from {{ log }} as changes
left semi join (
    select _digest
    from ({{ deletes }})
    where _lh_is_new and {{ parts.is_behind(horizon, '_position', '_occurred_at') | indent(4) }}
) using (_digest)
where {{ parts.known_time() | indent }} is null
