{#
  The row images whose copies a run of a table without a key counts again.

  Arguments:
      fold: the Fold.
      new: the new rows of the log, to select from.
      own: the table as it is now, to select from.
#}
select _row from ({{ event_parts.row_steps(fold, new) | indent }})
union
select _row
from {{ own }} as own
where exists (
    select 1
    from {{ new }} as changes
    where
        _operation = 'truncate'
        {{ 'and changes._source = own._source' if fold.several_sources }}
)
