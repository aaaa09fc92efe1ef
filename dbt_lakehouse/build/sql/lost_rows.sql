{#
  The number of places of a table's rows without a row in another table.

  Arguments:
      table, columns: the table, and its topic, partition and offset.
      other, other_columns: the same for the other table.
#}
select count(*)
from (select {{ columns }} from {{ table }})
left anti join (select {{ other_columns }} from {{ other }}) using (topic, partition, offset)
