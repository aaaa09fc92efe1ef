{#
  The events that other_events takes over from change_events, and whether change logs take them.

  Arguments:
      before: change_events, to select from.
      taken: which events change logs take, a TakenEvents.
#}
{% set is_judged = "metadata <=> '{\"compacted\":true}'" %}
select
    {{ event_columns | join(', ') }},
    if({{ is_judged }}, 'tombstone', null) as added_by,
    {{ taken.condition }} and not {{ is_judged }} as is_taken,
    1 as events,
    if(event_index = 0, 1, 0) as payloads
from {{ before }}
