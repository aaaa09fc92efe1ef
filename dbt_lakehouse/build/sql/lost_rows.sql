{#
  How many places of a table's rows are those of no row of another.

  Arguments:
      table, columns: the table, and its topic, partition and offset.
      other, other_columns: the same of the other.
#}
select count(*)
from (select {{ columns }} from {{ table }})
left anti join (select {{ other_columns }} from {{ other }}) using (topic, partition, offset)
