{#
  The states of keys in the form of deleted_keys, with `_lh_live`.

  Arguments:
      states: the relation with the folded keys, of the columns `key`.
      by_source: whether the log is ordered by its source.
#}
select
    {{ parts.record_key(key) | indent }} as record_key,
    _max_occurred_at as max_occurred_at,
    {{ parts.remembered('_position', by_source) | indent }} as position,
    {{ parts.remembered('_lh_null_position', by_source) | indent }} as null_position,
    {{ '_position.source' if by_source else 'cast(null as string)' }} as source_place,
    _lh_live
-- Of a key without an applied event there is nothing to keep: the truncate is kept.
from (select * from {{ states }} where _position is not null)
