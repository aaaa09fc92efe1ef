{#
  Delete the rows of other_events that a newly declared log takes.

  Arguments:
      events: other_events.
      taken: the events that change logs take, a TakenEvents.
#}
delete from {{ events }} where added_by is null and {{ taken.condition }}
