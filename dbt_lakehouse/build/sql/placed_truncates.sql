{#
  The new truncates of a log in its source's order, to select from, with the places that they got
  in the log after they were appended (source_places.py).

  Arguments:
      log: all of the log up to where the run reads it.
      new: its new rows.
      key: the first key column, which is null for a truncate.
#}
(
    select changes.*
    from {{ log }} as changes
    left semi join {{ new }} as new
        on
            changes._position.topic = new._position.topic
            and changes._position.partition = new._position.partition
            and changes._position.offset = new._position.offset
            and changes._position.event_index = new._position.event_index
            and new._operation = 'truncate'
    where changes.{{ key }} is null and changes._operation = 'truncate'
)
