{#
  The places of a change log's rows, as of events_in_place.

  Arguments:
      place: the log.
      rows: its rows to examine.
#}
select
    _position.topic,
    _position.partition,
    _position.offset,
    _position.event_index,
    {{ place | literal }} as place,
    false as is_shared
from {{ rows }}
