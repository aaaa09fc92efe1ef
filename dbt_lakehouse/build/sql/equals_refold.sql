{#
  The keys of a gold table whose rows differ from the fold of its change log by the plain Python
  references in dbt_lakehouse/reference (fold.py, deleted.py).

  Arguments:
      fold: the Fold.
      gold: the live rows of the gold table.
      table: the gold table, which may keep deleted rows, too.
      log, deletes: the log, and for a namespace the deletes without a set, to select from. They
          are pinned, because Spark would mistake a table for the part of it that is read beside it.
      keys: SQL of the keys to look at, or none for all.
      built_as_of: the moment that the table was built for, as text.
#}
{# The reference's result for the changes of each key. #}
{% macro of_each_key(reference, name) %}
select
    {{ fold.key_list }},
    {{ reference }}(
        collect_list(_lh_change),
        {{ fold.order_by_source_time | lower }},
        unix_micros(timestamp '{{ built_as_of }}'),
        {{ fold.partial | lower }}
    ) as {{ name }}
from changes
group by {{ fold.key_list }}
{%- endmacro %}
with all_changes as (
    {{ reference_parts.changes(fold, log, deletes) | indent }}
),

changes as (
    select * from {{ reference_parts.rows_of_keys('all_changes', keys, fold.key) | indent }}
),

expected as (
    {{ of_each_key('reference_fold', '_lh_state') | indent }}
),

live as (
    select
        {{ fold.key_list }},
        _lh_state
    from expected
    where _lh_state.is_live
){% if fold.deleted_rows %},

deleted as (
    {{ of_each_key('reference_deleted_row', '_row') | indent }}
),

kept as (
    select * from {{ reference_parts.rows_of_keys(table, keys, fold.key) | indent }}
    where _deleted_at is not null
)
{% endif %}

select
    {{ fold.key | each('coalesce(live.{}, gold.{}) as {}') | lines | indent }},
    case
        when gold.{{ fold.key[0] }} is null then 'missing in gold'
        when live.{{ fold.key[0] }} is null then 'should not be in gold'
        else 'differs from the events that were applied'
    end as difference,
    live._lh_state,
    gold._position
from live
full join {{ reference_parts.rows_of_keys(gold, keys, fold.key) }} as gold
    on {{ fold.key | each('live.{} = gold.{}') | join(' and ') | indent(8) }}
where
    gold.{{ fold.key[0] }} is null
    or live.{{ fold.key[0] }} is null
    or not {{ reference_parts.position(fold, 'gold._position') | indent }}
    <=> live._lh_state.position
    or not unix_micros(gold._occurred_at) <=> live._lh_state.occurred_at
    or not unix_micros(gold._max_occurred_at) <=> live._lh_state.max_occurred_at
    or not {{ reference_parts.column_texts('gold', fold.columns) | indent }}
    <=> live._lh_state.values
{% if fold.deleted_rows %}
union all
select
    {{ fold.key | each('coalesce(wanted.{}, kept.{})') | lines | indent }},
    case
        when kept._position is null then 'missing of the deleted rows'
        when wanted._row is null then 'should not be a deleted row'
        else 'differs from what was deleted'
    end,
    null,
    kept._position
from (select * from deleted where _row is not null) as wanted
full join kept on {{ fold.key | each('wanted.{} = kept.{}') | join(' and ') | indent }}
where not struct(
    unix_micros(kept._deleted_at) as deleted_at,
    {{ reference_parts.position(fold, 'kept._position') | indent }} as position,
    unix_micros(kept._occurred_at) as occurred_at,
    unix_micros(kept._max_occurred_at) as max_occurred_at,
    {{ reference_parts.column_texts('kept', fold.columns) | indent }} as values
) <=> struct(
    wanted._row.deleted_at,
    wanted._row.position,
    wanted._row.occurred_at,
    wanted._row.max_occurred_at,
    wanted._row.values
)
{% endif %}
