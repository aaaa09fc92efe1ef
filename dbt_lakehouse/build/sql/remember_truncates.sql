{#
  Save truncates of a table for later and late events.

  Arguments:
      deleted_keys: the table that keeps them, under `scope`.
      truncates: as of truncates.
      by_source: whether the log is ordered by its source.
      replaces: whether to replace older and newer ones: a remembered one has got another place.
      as_of: the moment of the run.
#}
merge into {{ deleted_keys }} as target
using (
    select
        record_key,
        {{ parts.remembered('newest.place', by_source) | indent(8) }} as position,
        {{ 'newest.place.source' if by_source else 'cast(null as string)' }} as source_place,
        newest.time
    from (
        select record_key, max(struct(place, time)) as newest
        from values
            {{ truncates | tuples('source', 'position', 'time') | lines | indent(12) }}
            as truncates (record_key, place, time)
        group by record_key
    )
) as source
on target.scope = {{ scope | literal }} and target.record_key = source.record_key
when matched
    {% if not replaces %}
    and struct(target.source_place, target.position)
    < struct(source.source_place, source.position)
    {% endif %}
then update set
    max_occurred_at = source.time,
    position = source.position,
    source_place = source.source_place,
    recorded_at = timestamp '{{ as_of }}'
when not matched then insert
    (scope, record_key, max_occurred_at, position, null_position, source_place, recorded_at)
values (
    {{ scope | literal }}, source.record_key, source.time, source.position, null,
    source.source_place, timestamp '{{ as_of }}'
)
