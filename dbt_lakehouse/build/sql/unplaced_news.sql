{#
  How many keys have a late event, how many the log has to place, and the first place and time of
  the latter's new events, in microseconds since the epoch.

  Arguments:
      judged: the relation of judged_news.sql.
#}
select
    count_if(_is_late) as late,
    count_if(_is_unplaced) as unplaced,
    unix_micros(min(_first_position.log_time) filter (where _is_unplaced)) as log_time,
    unix_micros(min(_first_time) filter (where _is_unplaced)) as time
from {{ judged }}
