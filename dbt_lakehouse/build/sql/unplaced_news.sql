{#
  The number of keys with a late event, the number of keys that the log has to place, and the first
  place and time of the latter's new events, in microseconds since the epoch.

  Arguments:
      judged: the relation of judged_news.sql.
#}
select
    count_if(_before) as late,
    count_if(_unknown) as unplaced,
    unix_micros(min(_first_position.log_time) filter (where _unknown)) as log_time,
    unix_micros(min(_first_time) filter (where _unknown)) as time
from {{ judged }}
