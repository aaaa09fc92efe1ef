{#
  The record keys of a gold table's rows that have expired, or that are remembered as absent after a
  later event.

  Arguments:
      fold: the Fold.
      gold: the gold table.
      deleted_keys: the table of remembered states.
      scope: the table's scope there.
      keys: SQL of the keys to examine, or none for all.
      built_as_of: the moment that the table was built for, as text.
#}
with gold as (
    select *, {{ parts.record_key(fold.key) | indent }} as _lh_record_key
    from {{ reference_parts.rows_of_keys(gold, keys, fold.key) | indent }}
)

select gold._lh_record_key, 'remembered as deleted or expired' as reason
from gold
inner join {{ deleted_keys }} as deleted_keys on gold._lh_record_key = deleted_keys.record_key
where
    deleted_keys.scope = {{ scope | literal }}
    and {{ parts.position('deleted_keys', fold.order_by) | indent }} > gold._position
{% if fold.namespace %}
union all
select _lh_record_key, 'expired'
from (select *, {{ parts.record_key(fold.key) | indent }} as _lh_record_key from {{ gold }})
where _expires_at <= timestamp '{{ built_as_of }}'
{% endif %}
