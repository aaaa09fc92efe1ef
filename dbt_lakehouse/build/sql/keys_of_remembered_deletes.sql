{#
  The keys of a namespace's deletes without a set that are new to a gold table.

  Arguments:
      fold: the Fold.
      remembered: `deleted_keys`, to select from.
      sequence: the sequence number up to which the model has read it.
#}
select _digest
from ({{ event_parts.remembered_deletes(fold.namespace, remembered, sequence) | indent }})
where _lh_is_new
