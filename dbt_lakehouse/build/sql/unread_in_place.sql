{#
  The places of the events that a change log has not read yet, as of events_in_place.

  Arguments:
      place: the log.
      unread: the events.
#}
select topic, partition, offset, event_index, {{ place | literal }} as place, false as is_shared
from {{ unread }}
