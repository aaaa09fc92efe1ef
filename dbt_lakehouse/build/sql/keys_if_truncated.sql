{#
  All keys of a log if a truncate is new: even without a current version, a truncate may separate
  events of one instant; by source time, it also deletes events behind it.

  Arguments:
      fold: the Fold.
      log: all of the log, to select from. It is pinned, because Spark would mistake it for the part
          of it that is read beside it.
      new: the new rows of the log, to select from.
#}
select {{ fold.key_list }}
from ({{ event_parts.log_events(fold, log) | indent }})
where exists (
    select 1
    from {{ new }} as changes
    where {{ fold.key[0] }} is null and _operation = 'truncate'
)
