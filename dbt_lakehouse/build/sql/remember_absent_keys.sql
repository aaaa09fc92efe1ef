{#
  Save the state of keys that are absent after the run, so that a late older write can't bring them
  back. A key that is live again keeps its old entry, which its gold row outranks, until the entry
  is purged. But if its row has an event before the entry's, the entry is reset to that event, so
  that no remembered state is newer than gold. (Such a delete came before its write, and is late now
  that the write is known.)

  A key that is absent again, or still, gets a further entry, which is no older than its others: the
  newest one counts.

  Arguments:
      deleted_keys: the table that keeps them, under `scope`.
      states: the relation with the folded keys, of the columns `key`.
      by_source: whether the log is ordered by its source.
      refolded: whether it has keys that were folded from their whole log; only their entries can
          be reset.
      as_of: the moment of the run.
#}
{% set absent %}
select
        {{ parts.record_key(key) | indent(8) }} as record_key,
        _max_occurred_at as max_occurred_at,
        {{ parts.remembered('_position', by_source) | indent(8) }} as position,
        {{ parts.remembered('_lh_null_position', by_source) | indent(8) }} as null_position,
        {{ '_position.source' if by_source else 'cast(null as string)' }} as source_place,
        _lh_live
    -- Of a key without an applied event there is nothing to keep: the truncate is kept.
    from (select * from {{ states }} where _position is not null)
{%- endset %}
{% set is_newer %}
{% if by_source %}
struct(target.source_place, target.position) > struct(source.source_place, source.position)
{%- else %}
-- One with a place in a source's order is from before the log went by Kafka's.
(target.source_place is not null or target.position > source.position)
{%- endif %}
{% endset %}
{% if not refolded %}
insert into {{ deleted_keys }}
    (scope, record_key, max_occurred_at, position, null_position, source_place, recorded_at)
select
    {{ scope | literal }},
    record_key,
    max_occurred_at,
    position,
    null_position,
    source_place,
    timestamp '{{ as_of }}'
from (
    {{ absent }}
    where not _lh_live
)
{% else %}
merge into {{ deleted_keys }} as target
using (
    {{ absent }}
) as source
on target.scope = {{ scope | literal }} and target.record_key = source.record_key
when matched and (not source._lh_live or {{ is_newer }}) then update set
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
{% endif %}
