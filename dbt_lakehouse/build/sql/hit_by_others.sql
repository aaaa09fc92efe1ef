{#
  The keys of a namespace's gold table whose row has expired, or is hit by a new delete without a
  set; and the absent keys that such a delete may bring back. This needs an event without a time,
  which is always applied: the delete makes some later events late, and one of these may have
  deleted the row.

  Arguments:
      gold: the gold table, to select from.
      expires: whether a row may have expired.
      deletes: SQL as of event_parts.remembered_deletes, or none for no new one.
      log, remembered: the log and `deleted_keys`, to select from.
      scope: the table's in `deleted_keys`.
      horizon: the purge horizon, as text, or none.
      as_of: the moment of the run.
#}
{% if expires %}
select _digest
from {{ gold }}
where _expires_at <= timestamp '{{ as_of }}'
{{ 'union' if deletes }}
{% endif %}
{% if deletes %}
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
{% if horizon %}
union
-- What is remembered of the others was purged.
select _digest
from {{ log }} as changes
left semi join (
    select _digest
    from ({{ deletes }})
    where _lh_is_new and {{ parts.is_behind(horizon, '_position', '_occurred_at') | indent(4) }}
) using (_digest)
where {{ parts.known_time() | indent }} is null
{% endif %}
{% endif %}
