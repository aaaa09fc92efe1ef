{#
  The known states of some keys: the gold row of a live one, the remembered state of an absent one.

  Arguments:
      fold: the Fold.
      keys: the relation of the keys.
      gold, remembered: the gold table and `deleted_keys`, to select from.
      scope: the table's in `deleted_keys`.
      columns: the value columns to read from gold if an event may leave some of them unchanged;
          otherwise a row is either replaced as a whole or not at all.
      ranges: the ranges of the keys (parts.is_in_key_ranges).
      truncated_at: the position of the newest truncate, as SQL, or none.
#}
with named as (
    select *, {{ parts.record_key(fold.key) | indent }} as _lh_record_key
    from {{ keys }}
),

-- The newest entry of each. An older one may have a later time, from before a truncate.
absent as (
    select
        record_key as _lh_record_key,
        max(struct(
            {{ parts.position('remembered', fold.order_by) | indent(12) }} as position,
            max_occurred_at
        )) as newest
    from {{ remembered }} as remembered
    left semi join named on remembered.record_key = named._lh_record_key
    where scope = {{ scope | literal }}
    group by record_key
)

select
    {{ fold.key | each('unsettled.{}') | lines | indent }},
    {{ columns | each('gold.{}') | lines_with_commas | indent }}
    {{ fold.columns | reject('in', columns) | each('null as {}') | lines_with_commas | indent }}
    if(gold._position is null, 'delete', 'upsert') as _operation,
    gold._occurred_at,
    if(
        gold._position is null, absent.newest.max_occurred_at, gold._max_occurred_at
    ) as _lh_guard_time,
    coalesce(gold._position, absent.newest.position) as _position,
    {{ 'gold._expires_at' if fold.namespace else 'cast(null as timestamp) as _expires_at' }},
    true as _lh_is_state,
    false as _lh_is_clock_ahead,
    cast(null as array<string>) as _unchanged_columns
from named as unsettled
-- Few rows: with gold on the right of the outer join, all of it would be shuffled.
left join (
    select *
    from {{ gold }}
    left semi join {{ keys }} using ({{ fold.key_list }})
    where {{ parts.is_in_key_ranges(fold.key[0], ranges) }}
) as gold
    on {{ fold.key | each('unsettled.{} = gold.{}') | join(' and ') }}
left join absent on gold._position is null and unsettled._lh_record_key = absent._lh_record_key
where
    coalesce(gold._position, absent.newest.position) is not null
    {% if truncated_at %}
    and coalesce(gold._position, absent.newest.position) > {{ truncated_at }}
    {% endif %}
