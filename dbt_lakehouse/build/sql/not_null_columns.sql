{#
  The rows in which any of some columns is null.

  Arguments:
      rows: the rows to look at.
      columns: the columns, quoted.
#}
select {{ columns | join(', ') }}
from {{ rows }}
where {{ columns | each('{} is null') | join(' or ') }}
