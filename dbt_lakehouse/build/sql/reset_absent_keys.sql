{#
  Save the state of keys that are absent after a run that has folded some from their whole log, as
  of remember_absent_keys. If the row of a live key has an event before its entry's, the entry is
  reset to that event, so that no remembered state is newer than gold. (Such a delete came before
  its write, and is late now that the write is known.)

  Arguments:
      deleted_keys: the table that keeps them, under `scope`.
      states: SQL as of absent_states.
      by_source: whether the log is ordered by its source.
      as_of: the moment of the run.
#}
merge into {{ deleted_keys }} as target
using (
    {{ states | indent }}
) as source
on target.scope = {{ scope | literal }} and target.record_key = source.record_key
when matched and (
    not source._lh_live
    {% if by_source %}
    or struct(target.source_place, target.position)
    > struct(source.source_place, source.position)
    {% else %}
    or
    -- One with a place in a source's order is from before the log went by Kafka's.
    (target.source_place is not null or target.position > source.position)
    {% endif %}
) then update set
    max_occurred_at = source.max_occurred_at,
    position = source.position,
    null_position = source.null_position,
    source_place = source.source_place,
    recorded_at = timestamp '{{ as_of }}'
when not matched and not source._lh_live then insert
    (scope, record_key, max_occurred_at, position, null_position, source_place, recorded_at)
values (
    {{ scope | literal }}, source.record_key, source.max_occurred_at, source.position,
    source.null_position, source.source_place, timestamp '{{ as_of }}'
)
