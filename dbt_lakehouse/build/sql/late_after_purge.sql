{#
  The number of keys with new events and without a known state that may have had a purged state.

  Arguments:
      key: the columns.
      states, known: relations of the new events' states, and of the known states.
      horizon: the purge horizon, as text.
#}
select count(*)
from {{ states }}
left anti join {{ known }} using ({{ key | join(', ') }})
where {{ parts.is_behind(horizon, '_lh_first_position', '_lh_first_time') }}
