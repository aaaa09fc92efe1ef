{#
  The keys whose rows got values of other rows since a model read the log (key_updates.py), or may
  have got them.

  Arguments:
      log: the log, to select from.
      key: the columns.
      sequence: the sequence number up to which the model has read the log.
#}
select {{ key | join(', ') }}
from {{ log }}
where
    _key_update.key_before.{{ key[0] }} is not null
    and size(_key_update.columns) > 0
    and _last_updated_sequence_number > {{ sequence }}
