{#
  Keeps truncates of a table, for events that come after them, or late.

  Arguments:
      deleted_keys: the table that keeps them, under `scope`.
      truncates: fold.Truncate, at least one.
      as_of: the moment of the run.
#}
merge into {{ deleted_keys }} as target
using (
    select record_key, max(position) as position, max_by(time, position) as time
    from values
        {% for each in truncates %}
        ({{ each.source | literal }}, {{ each.position }}, {{ each.time }})
        {{- ',' if not loop.last }}
        {% endfor %}
        as truncates (record_key, position, time)
    group by record_key
) as source
on target.scope = {{ scope | literal }} and target.record_key = source.record_key
when matched and target.position < source.position then update set
    max_occurred_at = source.time,
    position = source.position,
    recorded_at = timestamp '{{ as_of }}'
when not matched then insert
    (scope, record_key, max_occurred_at, position, null_position, recorded_at)
values (
    {{ scope | literal }}, source.record_key, source.time, source.position, null,
    timestamp '{{ as_of }}'
)
