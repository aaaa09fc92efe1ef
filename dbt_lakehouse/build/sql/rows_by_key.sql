{#
  The live rows of states, in the order of keys, so that a run can pass over the files of those that
  it does not touch.

  Arguments:
      states: the relation of the states.
      columns, key: the columns of the table, and of its key.
      ranges: into how many ranges of keys, and files, they are divided.
#}
select /*+ repartition_by_range({{ ranges }}, {{ key | join(', ') }}) */
    {{ columns | join(', ') }}
from {{ states }}
where _live
sort by {{ key | join(', ') }}
