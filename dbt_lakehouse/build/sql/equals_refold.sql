{% import 'parts.sql' as parts %}
{% import 'reference.sql' as reference %}
{#
  The keys of a gold table that it has not as the plain Python reference in
  dbt_lakehouse/reference/fold.py folds its change log.

  Arguments:
      fold: the Fold.
      gold: the gold table.
      log, deletes: the log, and of a namespace the deletes without a set, to select from. Pinned:
          beside a part of a table, Spark would take the one for the other.
      keys: SQL of the keys to look at, or none for all.
      built_as_of: the moment that the table was built for, as text.
#}
{% set key_list = fold.key | join(', ') %}
with all_changes as (
    {{ reference.changes(fold, log, deletes) | indent }}
),

changes as (
    select * from {{ reference.rows_of_keys('all_changes', keys, fold.key) | indent }}
),

expected as (
    select
        {{ key_list }},
        reference_fold(
            collect_list(_change),
            {{ fold.order_by_source_time | lower }},
            unix_micros(timestamp '{{ built_as_of }}'),
            {{ fold.partial | lower }}
        ) as _state
    from changes
    group by {{ key_list }}
),

live as (
    select
        {{ key_list }},
        _state
    from expected
    where _state.is_live
)

select
    {% for column in fold.key %}
    coalesce(live.{{ column }}, gold.{{ column }}) as {{ column }},
    {% endfor %}
    case
        when gold.{{ fold.key[0] }} is null then 'missing in gold'
        when live.{{ fold.key[0] }} is null then 'should not be in gold'
        else 'differs from the events that were applied'
    end as difference,
    live._state,
    gold._position
from live
full join {{ reference.rows_of_keys(gold, keys, fold.key) }} as gold
    on {{ parts.equal('live', 'gold', fold.key) | indent(8) }}
where
    gold.{{ fold.key[0] }} is null
    or live.{{ fold.key[0] }} is null
    or not {{ reference.position(fold, 'gold._position') | indent }}
    <=> live._state.position
    or not unix_micros(gold._occurred_at) <=> live._state.occurred_at
    or not unix_micros(gold._max_occurred_at) <=> live._state.max_occurred_at
    or not {{ reference.column_texts('gold', fold.columns) | indent }} <=> live._state.values
