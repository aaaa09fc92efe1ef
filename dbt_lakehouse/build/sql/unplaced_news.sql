{#
  The number of keys with a late event, the number of keys that the log has to place, and the first
  place and time of the latter's new events, in microseconds since the epoch.

  Arguments:
      judged: the relation of judged_news.sql.
#}
select
    count_if(_lh_before) as late,
    count_if(_lh_unknown) as unplaced,
    unix_micros(min(_lh_first_position.log_time) filter (where _lh_unknown)) as log_time,
    unix_micros(min(_lh_first_time) filter (where _lh_unknown)) as time
from {{ judged }}
