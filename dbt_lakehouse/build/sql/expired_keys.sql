{#
  The keys of a namespace's gold table whose row has expired.

  Arguments:
      gold: the gold table, to select from.
      as_of: the moment of the run.
#}
select _digest
from {{ gold }}
where _expires_at <= timestamp '{{ as_of }}'
