{#
  The truncates whose place in the source's order was set or changed since a model read the log
  (source_places.py).

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
