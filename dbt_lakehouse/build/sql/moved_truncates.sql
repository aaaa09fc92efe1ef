{#
  The truncates of a log that its source orders which have got a place, or another one, since a
  model has read the log (source_places.py).

  Arguments:
      log: the log, to select from.
      key: the first key column, which is null for a truncate.
      sequence: the sequence number up to which the model has read the log.
#}
select 1
from {{ log }}
where
    {{ key }} is null
    and _operation = 'truncate'
    and _position.source like '% !'
    and _last_updated_sequence_number > {{ sequence }}
