{#
  The earlier steps in the log of the rows that the new steps name, as far as they may lie behind a
  new step; and the earlier truncates there.

  Arguments:
      fold: the Fold.
      before: the rows of the log that were read before, to select from.
      news: the relation of the new steps.
      own: the table as it is now, to select from: it places the steps of the rows that it has.
      log_time: the first log time of the steps that the log has to place, as SQL.
#}
{% set near %}
(
    select *
    from {{ before }}
    where _position.log_time is null or _position.log_time >= {{ log_time }}
)
{%- endset %}
select 1 as found
from ({{ event_parts.row_steps(fold, near) | indent }})
left semi join (select _row from {{ news }} left anti join {{ own }} using (_row)) using (_row)
union all
select 1
from {{ near }} as changes
where _operation = 'truncate'
