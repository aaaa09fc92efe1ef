{#
  The events that no change log takes.

  Arguments:
      events: a query of events with `is_taken`, and the numbers that a row stands for.
#}
select * except (is_taken, events, payloads) from ({{ events }}) where not is_taken
