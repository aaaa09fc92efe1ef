{#
  The events that no change log takes.

  Arguments:
      events: a query of events with `is_taken`, and the number that a row stands for.
#}
select * except (is_taken, events) from ({{ events }}) where not is_taken
