{#
  The keys of new events with the least position and the least known time of these.

  Arguments:
      key: the columns.
      states: the relation of the new events' states.
#}
select {{ key | join(', ') }}, _lh_first_position, _lh_first_time from {{ states }}
