{#
  The number of rows of a table without a key that the log does not yield, up to the newest event
  with a row in the table.

  Arguments:
      table: the gold table.
      columns: the columns that distinguish its rows.
      given: the rows that the log gives, as SQL.
#}
{% set row = parts.exact_json('struct(' ~ columns | join(', ') ~ ')') %}
select sum(greatest(held - coalesce(given, 0), 0))
from (select {{ row }} as _row, count(*) as held from {{ table }} group by 1)
left join (
    select {{ row }} as _row, count(*) as given
    from ({{ given }})
    group by 1
) using (_row)
