{#
  Remove states from `deleted_keys`. Older entries of a key are removed with the newest, whenever
  they were recorded.

  Arguments:
      deleted_keys: the table.
      old: the relation of the states.
#}
merge into {{ deleted_keys }} as target
using (
    select
        scope,
        record_key,
        max(recorded_at) as recorded_at,
        max(struct(source_place, position)) as place
    from {{ old }}
    group by scope, record_key
) as source
on target.scope = source.scope and target.record_key = source.record_key
when matched and (
    target.recorded_at <= source.recorded_at
    or struct(target.source_place, target.position) < source.place
) then delete
