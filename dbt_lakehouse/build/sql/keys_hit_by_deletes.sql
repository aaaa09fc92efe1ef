{#
  The keys of a namespace's gold table whose row is hit by a new delete without a set; and the
  absent keys that such a delete may bring back. This needs an event without a time, which is always
  applied: the delete makes some later events late, and one of these may have deleted the row.

  Arguments:
      gold, remembered: the gold table and `deleted_keys`, to select from.
      scope: the table's in `deleted_keys`.
      deletes: SQL as of event_parts.remembered_deletes.
#}
select _digest
from {{ gold }}
left semi join (select _digest from ({{ deletes }}) where _lh_is_new) using (_digest)
union
select _digest
from (
    select get_json_object(record_key, '$.digest') as _digest
    from {{ remembered }}
    where scope = {{ scope | literal }} and null_position is not null
)
left semi join (select _digest from ({{ deletes }}) where _lh_is_new) using (_digest)
