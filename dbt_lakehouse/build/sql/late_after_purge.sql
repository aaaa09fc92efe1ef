{% import 'parts.sql' as parts %}
{#
  How many keys with new events that nothing is known of may have had a state that was forgotten.

  Arguments:
      key: the columns.
      states, known: relations of the new events' states, and of what is known.
      horizon: up to when remembered states were forgotten, as text.
#}
select count(*)
from {{ states }}
left anti join {{ known }} using ({{ key | join(', ') }})
where {{ parts.is_behind(horizon, '_first_position', '_first_time') }}
