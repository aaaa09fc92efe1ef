{#
  The live rows of states, in the order of keys, so that a run can skip the files of untouched keys.

  Arguments:
      states: the relation of the states.
      columns, key: the columns of the table, and of its key.
      ranges: the number of key ranges, and of files.
#}
select /*+ repartition_by_range({{ ranges }}, {{ key | join(', ') }}) */
    {{ columns | join(', ') }}
from {{ states }}
where _lh_live
sort by {{ key | join(', ') }}
