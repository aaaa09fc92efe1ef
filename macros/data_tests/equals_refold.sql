{#
  A gold table equals the fold of its change log by the plain Python reference in
  dbt_lakehouse/reference/fold.py: the same keys are live, with the same values, positions and
  times.
#}
{% test equals_refold(model) %}
{{- config(tags=['nightly']) -}}
{%- if execute -%}
{%- set fold = adapter.fold_to_test(model, 'equals_refold') -%}
{#- Pinned: beside a part of a table, Spark would take the one for the other. -#}
{%- set log = dbt.pinned(adapter.log_of_model(model)) -%}
{%- set deletes = dbt.pinned(adapter.relation_of('set_less_deletes')) if fold.namespace -%}
{%- set key_list = fold.key | join(', ') -%}
{%- set keys = dbt.touched_keys(model, fold) -%}
with all_changes as (
    {{ dbt.reference_changes(fold, log, deletes) | indent(4) }}
),

changes as (
    select * from {{ dbt.rows_of_keys('all_changes', keys, fold.key) }}
),

expected as (
    select
        {{ key_list }},
        reference_fold(
            collect_list(_change),
            {{ fold.order_by_source_time }},
            unix_micros(timestamp '{{ dbt.built_as_of(model) }}'),
            {{ fold.partial }}
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
    {%- for column in fold.key %}
    coalesce(live.{{ column }}, gold.{{ column }}) as {{ column }},
    {%- endfor %}
    case
        when gold.{{ fold.key[0] }} is null then 'missing in gold'
        when live.{{ fold.key[0] }} is null then 'should not be in gold'
        else 'differs from the events that were applied'
    end as difference,
    live._state,
    gold._position
from live
full join {{ dbt.rows_of_keys(model, keys, fold.key) }} as gold
    on
        {% for column in fold.key %}
        live.{{ column }} = gold.{{ column }}{{ ' and ' if not loop.last }}
        {% endfor %}
where
    gold.{{ fold.key[0] }} is null
    or live.{{ fold.key[0] }} is null
    or not struct(
        unix_micros(gold._position.log_time), gold._position.topic, gold._position.partition,
        gold._position.offset, gold._position.event_index
    ) <=> live._state.position
    or not unix_micros(gold._occurred_at) <=> live._state.occurred_at
    or not unix_micros(gold._max_occurred_at) <=> live._state.max_occurred_at
    or not {{ dbt.column_texts('gold', fold.columns) }} <=> live._state.values
{%- endif -%}
{% endtest %}
