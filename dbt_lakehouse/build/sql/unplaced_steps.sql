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
        min(_position) as _first_position,
        bool_or(_position.log_time is null) as _unsaid
    from {{ news }}
    group by _row
),

known as (
    select _row, max(_position) as _known_position
    from {{ own }}
    left semi join firsts using (_row)
    group by _row
)

select
    count_if(_unsaid or coalesce(_first_position <= _known_position, false)) as late,
    count_if(_known_position is null) as unplaced,
    unix_micros(min(_first_position.log_time) filter (where _known_position is null)) as log_time
from firsts
left join known using (_row)
