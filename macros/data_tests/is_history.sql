{#
  A history has the versions that the plain Python reference in dbt_lakehouse/reference/history.py
  makes of the change log, each with the same time and values: so it has no overlap, and no gap but
  where the row was gone. And what is current is what the gold table holds.

  Arguments:
      current: the name of the gold table of the same change log.
#}
{% test is_history(model, current) %}
{{- config(tags=['nightly']) -}}
{%- set gold = ref(current) -%}
{%- if execute -%}
{%- set fold = adapter.fold_to_test(model, 'is_history', gold) -%}
{#- Pinned: beside a part of a table, Spark would take the one for the other. -#}
{%- set log = dbt.pinned(adapter.log_of_model(model)) -%}
{%- set deletes = dbt.pinned(adapter.relation_of('set_less_deletes')) if fold.namespace -%}
{%- set key_list = fold.key | join(', ') -%}
{%- set places = [] -%}
{%- for column in fold.track_columns or [] -%}
    {%- do places.append(fold.columns.index(column)) -%}
{%- endfor -%}
{%- set compared = (fold.columns + ['_position']) -%}
{#- Gold rejects what is late, and a history puts it in its place: what an event leaves as it was
    may then be what another one says. -#}
{%- set has_own_rests = fold.order_by_source_time and fold.may_leave and not fold.partial -%}
{%- set keys = dbt.touched_keys(model, fold) -%}
{%- set rows = dbt.rows_of_keys(model, keys, fold.key) -%}
with all_changes as (
    {{ dbt.reference_changes(fold, log, deletes) | indent(4) }}
),

changes as (
    select * from {{ dbt.rows_of_keys('all_changes', keys, fold.key) }}
),

expected as (
    select
        {{ key_list }},
        explode(reference_history(
            collect_list(_change),
            {{ fold.order_by_source_time }},
            unix_micros(timestamp '{{ dbt.built_as_of(model) }}'),
            {{
                'array(' ~ places | join(', ') ~ ')' if fold.track_columns
                else 'cast(null as array<int>)'
            }}
        )) as _version
    from changes
    group by {{ key_list }}
),

history as (
    select
        {{ key_list }},
        is_current = (valid_to is null) as _is_consistent,
        struct(
            unix_micros(valid_from) as valid_from,
            unix_micros(valid_to) as valid_to,
            struct(
                unix_micros(_position.log_time) as log_time,
                _position.topic,
                _position.partition,
                _position.offset,
                _position.event_index
            ) as position,
            {{ dbt.column_texts('model', fold.columns) }} as values
        ) as _version
    from {{ rows }} as model
)

select
    {%- for column in fold.key %}
    coalesce(expected.{{ column }}, history.{{ column }}) as {{ column }},
    {%- endfor %}
    coalesce(expected._version.position, history._version.position) as _position,
    case
        when history._version is null then 'missing in the history'
        when expected._version is null then 'should not be in the history'
        else 'has the wrong time or values'
    end as fault
from expected
full join history
    on
        {%- for column in fold.key %}
        expected.{{ column }} = history.{{ column }} and
        {%- endfor %}
        expected._version.position <=> history._version.position
where
    not coalesce(history._is_consistent, false)
    or expected._version is null
    or not history._version <=> struct(
        expected._version.valid_from,
        expected._version.valid_to,
        expected._version.position,
        expected._version.values
    )
union all
select
    {%- for column in fold.key %}
    coalesce(gold.{{ column }}, history.{{ column }}),
    {%- endfor %}
    null,
    case
        when history.is_current is null then 'is in the gold table and has no current version'
        when gold._position is null then 'is current and not in the gold table'
        else 'differs from the row in the gold table'
    end
from {{ dbt.rows_of_keys(gold, keys, fold.key) }} as gold
full join (select * from {{ rows }} where is_current) as history
    on
        {% for column in fold.key %}
        gold.{{ column }} = history.{{ column }}{{ ' and ' if not loop.last }}
        {% endfor %}
{%- if has_own_rests %}
left join {{ log }} as changes on gold._position = changes._position
{%- endif %}
where
    gold._position is null
    or history.is_current is null
    {%- if has_own_rests %}
    or exists(
        transform(
            {{ dbt.column_texts('gold', compared) }},
            (text, place) -> not text <=> {{ dbt.column_texts('history', compared) }}[place]
            and not array_contains({{ dbt.unchanged_places(fold.columns) }}, place)
        ),
        differs -> differs
    )
    {%- else %}
    or not {{ dbt.column_texts('gold', compared) }} <=> {{ dbt.column_texts('history', compared) }}
    {%- endif %}
{%- endif -%}
{% endtest %}
