{#
  Merge rows into a table of the lake's own state.

  Arguments:
      table: the table.
      rows: the model's SQL.
      key: the columns by which rows are the same.
#}
merge into {{ table }} as target
using ({{ rows }}) as source
on {{ key | each('target.{} <=> source.{}') | join(' and ') }}
when matched then update set *
when not matched then insert *
