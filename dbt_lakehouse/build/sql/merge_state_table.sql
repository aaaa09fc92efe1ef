{#
  Merge rows into a table of the lake's own state.

  Arguments:
      table: the table.
      rows: the model's SQL.
      key: the columns by which rows are the same.
#}
merge into {{ table }} as target
using ({{ rows }}) as source
on
    {% for column in key %}
    target.{{ column }} <=> source.{{ column }}{{ ' and' if not loop.last }}
    {% endfor %}
when matched then update set *
when not matched then insert *
