{#
  The keys of a namespace's gold table whose row has expired, or is hit by a new delete without a
  set.

  Arguments:
      gold: the gold table, to select from.
      expires: whether a row may have expired.
      deletes: SQL as of events.remembered_deletes, or none for no new one.
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
left semi join (select _digest from ({{ deletes }}) where _is_new) using (_digest)
{% endif %}
