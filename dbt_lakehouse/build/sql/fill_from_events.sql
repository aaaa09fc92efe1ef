{#
  A MERGE that fills columns of a change log from the events of its rows.

  Arguments:
      table: the log.
      rows: the query of the rows that those events give now.
      columns: the columns to fill, and the technical ones about them, quoted.
#}
merge into {{ table }} as target
using ({{ rows }}) as source
on
    -- Without the log time: a truncate nearby may have moved it.
    target._position.topic = source._position.topic
    and target._position.partition = source._position.partition
    and target._position.offset = source._position.offset
    and target._position.event_index = source._position.event_index
when matched and {{ parts.columns_differ(columns) }} then update set
    {{ columns | each('{} = source.{}') | lines | indent }}
