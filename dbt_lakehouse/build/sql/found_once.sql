{#
  The rows that a query has found, to select from.

  Arguments:
      columns: their names.
      rows: the rows, of SQL by these names; at least one.
#}
(select * from values
    {{ rows | tuples(*columns) | lines | indent }}
    as found ({{ columns | join(', ') }}))
