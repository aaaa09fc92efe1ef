{#
  The keys whose rows a run rebuilds, in a history or in a gold table that keeps deleted rows.

  Arguments:
      fold: the Fold.
      log: all of the log, to select from. It is pinned, because Spark would mistake it for the part
          of it that is read beside it.
      new, new_deletes: the new rows of the log, and for a namespace those of the deletes without a
          set, to select from.
      own: for a namespace, the table as it is now, to select from.
      is_current: SQL over that table, for the rows that can expire.
      resting: SQL of keys as of resting_keys.sql, or none.
      to_fill: the columns to fill (parts.is_to_be_filled).
      truncates: whether a truncate may be new.
      as_of: the moment at which rows expire, as text.
#}
select {{ fold.key_list }} from ({{ event_parts.log_events(fold, new) | indent }})
{% if resting %}
union
{{ resting }}
{% endif %}
{% if to_fill %}
union
select {{ fold.key_list }}
from {{ log }} as changes
where {{ parts.is_to_be_filled(to_fill, 'changes') }}
{% endif %}
{% if fold.namespace %}
union
{# Of all keys of the log: a key without a version gets one if, behind the delete, an event without
   a time is no longer older than one that took it away. #}
select _digest
from {{ new_deletes }}
left semi join {{ log }} using (_digest)
where _namespace = {{ fold.namespace | literal }}
union
select _digest from {{ own }} where {{ is_current }} and _expires_at <= timestamp '{{ as_of }}'
{% elif truncates %}
union
{# All keys: even without a current version, a truncate may separate events of one instant; by
   source time, it also deletes events behind it. #}
select {{ fold.key_list }}
from ({{ event_parts.log_events(fold, log) | indent }})
where exists (
    select 1
    from {{ new }} as changes
    where {{ fold.key[0] }} is null and _operation = 'truncate'
)
{% endif %}
