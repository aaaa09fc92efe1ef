{#
  The duplicate keys of a gold table, and those with a null column.

  Arguments:
      key: the key columns.
      gold: the gold table.
      keys: SQL of the keys to examine, or none for all.
#}
select {{ key | join(', ') }}, count(*) as copies
from {{ reference_parts.rows_of_keys(gold, keys, key) }}
group by {{ key | join(', ') }}
having
    count(*) > 1
    or {{ key | each('{} is null') | join(' or ') }}
