{#
  A MERGE that fills columns of a change log from the events of its rows.

  Arguments:
      table: the log.
      rows: the query of the rows that those events give now.
      names, columns: the names of the columns to fill, and these quoted.
      lists, structs: the log's columns that list names of columns, and others that may depend on
          the columns to fill.
#}
{% set filled = columns + lists + structs %}
{% set names = names | map('literal') | join(', ') %}
merge into {{ table }} as target
using (
    select * from (
        {{ rows | indent(8) }}
    )
    -- Other events say nothing of these columns.
    where
        {{ columns | join(' is not null or ') }} is not null
        {% for list in lists %}
        or arrays_overlap({{ list }}, array({{ names }}))
        {% endfor %}
        or exists(_misfits, misfit -> misfit.column in ({{ names }}))
        {{ 'or _key_update is not null' if '_key_update' in structs }}
) as source
on
    -- Without the log time: a truncate nearby may have moved it.
    target._position.topic = source._position.topic
    and target._position.partition = source._position.partition
    and target._position.offset = source._position.offset
    and target._position.event_index = source._position.event_index
when matched and {{ parts.columns_differ(filled) }} then update set
    {{ filled | each('{} = source.{}') | lines | indent }}
