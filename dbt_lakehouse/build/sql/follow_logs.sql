{% import 'payloads.sql' as parts %}
{#
  Brings the rows of other_events up to what the project's change logs take by now: what a log takes
  that was declared since goes, and what one took that is not there any more comes from bronze.

  Arguments:
      events: other_events.
      taken: which events change logs take, a TakenEvents.
      comes: whether they take any that they did not take before.
      left: a relation of those that they no longer take, or none.
#}
{% set is_taken = 'added_by is null and ' ~ taken.condition %}
{% if left is none %}
delete from {{ events }} where {{ is_taken }}
{% else %}
merge into {{ events }} as target
using (select {{ parts.event_columns | join(', ') }} from {{ left | indent }}) as source
on
    target.topic = source.topic
    and target.partition = source.partition
    and target.offset = source.offset
    and target.event_index = source.event_index
when not matched then
    insert ({{ parts.event_columns | join(', ') }})
    values (source.{{ parts.event_columns | join(', source.') }})
{% if comes %}
when not matched by source and {{ is_taken }} then delete
{% endif %}
{% endif %}
