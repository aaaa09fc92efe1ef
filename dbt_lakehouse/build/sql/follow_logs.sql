{#
  Align the rows of other_events with the project's present change logs: add from bronze the events
  of a removed log, and delete the events that a newly declared log takes.

  Arguments:
      events: other_events.
      taken: the events that change logs take, a TakenEvents.
      comes: whether they take any that they did not take before.
      left: a relation of the events that they no longer take.
#}
merge into {{ events }} as target
using (select {{ event_columns | join(', ') }} from {{ left | indent }}) as source
on
    target.topic = source.topic
    and target.partition = source.partition
    and target.offset = source.offset
    and target.event_index = source.event_index
when not matched then
    insert ({{ event_columns | join(', ') }})
    values (source.{{ event_columns | join(', source.') }})
{% if comes %}
when not matched by source and added_by is null and {{ taken.condition }} then delete
{% endif %}
