{#
  The number of rows with a new step that is not behind all of their copies' positions, the number
  of rows without a copy, and the first log time of the latter's new steps, in microseconds since
  the epoch.

  Arguments:
      own: the table as it is now, to select from.
      news: the relation of the new steps.
#}
with firsts as (
    select
        _row,
        min(_position) as _lh_first_position,
        bool_or(_position.log_time is null) as _lh_unsaid
    from {{ news }}
    group by _row
),

known as (
    select _row, max(_position) as _lh_known_position
    from {{ own }}
    left semi join firsts using (_row)
    group by _row
)

select
    count_if(_lh_unsaid or coalesce(_lh_first_position <= _lh_known_position, false)) as late,
    count_if(_lh_known_position is null) as unplaced,
    unix_micros(
        min(_lh_first_position.log_time) filter (where _lh_known_position is null)
    ) as log_time
from firsts
left join known using (_row)
