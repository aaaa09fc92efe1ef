{#
  The versions of a history that differ from the result of the plain Python reference in
  dbt_lakehouse/reference/history.py, and the keys whose current version differs from the row of the
  gold table.

  Arguments:
      fold: the Fold of the history.
      history, gold: the two tables.
      log, deletes: the log, and for a namespace the deletes without a set, to select from. They
          are pinned, because Spark would mistake a table for the part of it that is read beside it.
      keys: SQL of the keys to look at, or none for all.
      built_as_of: the moment that the history was built for, as text.
#}
{% set compared = fold.columns + ['_position'] %}
{# Gold rejects late events, and a history puts them in their place: a column that an event leaves
   unchanged may then have the value of another event. #}
{% set has_own_rests = fold.order_by_source_time and fold.may_leave and not fold.partial %}
{% set rows = reference_parts.rows_of_keys(history, keys, fold.key) %}
with all_changes as (
    {{ reference_parts.changes(fold, log, deletes) | indent }}
),

changes as (
    select * from {{ reference_parts.rows_of_keys('all_changes', keys, fold.key) | indent }}
),

expected as (
    select
        {{ fold.key_list }},
        explode(reference_history(
            collect_list(_lh_change),
            {{ fold.order_by_source_time | lower }},
            unix_micros(timestamp '{{ built_as_of }}'),
            {% if fold.track_columns %}
            array({{ fold.tracked_places | join(', ') }})
            {%- else %}
            cast(null as array<int>)
            {%- endif %}

        )) as _lh_version
    from changes
    group by {{ fold.key_list }}
),

history as (
    select
        {{ fold.key_list }},
        is_current = (valid_to is null) as _lh_is_consistent,
        struct(
            unix_micros(valid_from) as valid_from,
            unix_micros(valid_to) as valid_to,
            {{ reference_parts.position(fold) | indent(12) }} as position,
            {{ reference_parts.column_texts('model', fold.columns) | indent(12) }} as values
        ) as _lh_version
    from {{ rows | indent }} as model
)

select
    {{ fold.key | each('coalesce(expected.{}, history.{}) as {}') | lines | indent }},
    coalesce(expected._lh_version.position, history._lh_version.position) as _position,
    case
        when history._lh_version is null then 'missing in the history'
        when expected._lh_version is null then 'should not be in the history'
        else 'has the wrong time or values'
    end as fault
from expected
full join history
    on
        {{ fold.key | each('expected.{} = history.{}') | join(' and ') }}
        and expected._lh_version.position <=> history._lh_version.position
where
    not coalesce(history._lh_is_consistent, false)
    or expected._lh_version is null
    or not history._lh_version <=> struct(
        expected._lh_version.valid_from,
        expected._lh_version.valid_to,
        expected._lh_version.position,
        expected._lh_version.values
    )
union all
select
    {{ fold.key | each('coalesce(gold.{}, history.{})') | lines | indent }},
    null,
    case
        when history.is_current is null then 'is in the gold table and has no current version'
        when gold._position is null then 'is current and not in the gold table'
        else 'differs from the row in the gold table'
    end
from {{ reference_parts.rows_of_keys(gold, keys, fold.key) }} as gold
full join (select * from {{ rows | indent }} where is_current) as history
    on {{ fold.key | each('gold.{} = history.{}') | join(' and ') | indent(8) }}
{% if has_own_rests %}
left join {{ log }} as changes on gold._position = changes._position
{% endif %}
where
    gold._position is null
    or history.is_current is null
    {% if has_own_rests %}
    or exists(
        transform(
            {{ reference_parts.column_texts('gold', compared) | indent(12) }},
            (text, place) -> not text <=> {{ reference_parts.column_texts('history', compared)
                | indent(12) }}[place]
            and not array_contains({{ reference_parts.unchanged_places(fold.columns)
                | indent(12) }}, place)
        ),
        differs -> differs
    )
    {% else %}
    or not {{ reference_parts.column_texts('gold', compared) | indent }}
    <=> {{ reference_parts.column_texts('history', compared) | indent }}
    {% endif %}
