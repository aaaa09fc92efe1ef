{#
  The keys that a command may have changed in a gold table or history.

  Arguments:
      fold: the Fold, of the keys alone.
      new: the new rows of the log, to select from.
      new_deletes: for a history of a namespace, the new deletes without a set, to select from;
          else none.
      remembered: for a gold table of a namespace, `deleted_keys`, to select from; else none.
      sequence: the sequence number up to which the model has read `deleted_keys`.
#}
select {{ fold.key_list }}
from ({{ event_parts.log_events(fold, new) | indent }})
{% if new_deletes %}
union all
select _digest
from {{ new_deletes }}
where _namespace = {{ fold.namespace | literal }}
{% endif %}
{% if remembered %}
union all
select _digest
from ({{ event_parts.remembered_deletes(fold.namespace, remembered, sequence) | indent }})
where _lh_is_new
{% endif %}
