{#
  A gold table equals the fold of its change log by the plain Python reference in tests/reference_fold.py: the same
  keys are live, with the same values, positions and times.

  Arguments:
      changes: the name of the change log.
#}
{% test equals_refold(model, changes) %}
{%- set log, deletes = ref(changes), ref('set_less_deletes') -%}
{%- if execute -%}
{%- set fold = fold_of(model) -%}
{%- set key_list = fold.key | join(', ') -%}
{%- set change -%}
    struct(
        {operation},
        unix_micros(_occurred_at),
        unix_micros(_kafka_timestamp),
        struct(unix_micros(_position.log_time), _position.topic, _position.partition, _position.offset, _position.event_index),
        {expires_at},
        {values},
        {unchanged}
    ) as _change
{%- endset -%}
{%- set bare = change
    | replace('{expires_at}', 'cast(null as bigint)')
    | replace('{values}', 'array_repeat(cast(null as string), ' ~ fold.columns | length ~ ')')
    | replace('{unchanged}', 'cast(array() as array<int>)') -%}
with log as (
    select * from {{ log }}
    where _operation <> 'truncate' {% for column in fold.key %} and {{ column }} is not null{% endfor %}
),

changes as (
    select
        {{ key_list }},
        {{ change
            | replace('{operation}', '_operation')
            | replace('{expires_at}', 'unix_micros(_expires_at)' if fold.namespace else 'cast(null as bigint)')
            | replace('{values}', column_texts('log', fold.columns))
            | replace('{unchanged}', 'cast(array() as array<int>)' if fold.namespace else unchanged_places(fold.columns)) }}
    from log
    {%- if fold.namespace %}
    union all
    select _digest, {{ bare | replace('{operation}', '_operation') }}
    from {{ deletes }}
    where _namespace = {{ sql_text(fold.namespace) }} and _digest in (select _digest from log)
    {%- else %}
    -- An update that has replaced its key is a delete of the old one.
    union all
    select _previous_key.*, {{ bare | replace('{operation}', "'delete'") }}
    from log
    where _previous_key is not null
    union all
    select {{ key_list }}, _change
    from (
        select {{ key_list }} from log
        union
        select _previous_key.* from log where _previous_key is not null
    )
    cross join (
        select {{ bare | replace('{operation}', '_operation') }} from {{ ref(changes) }} where _operation = 'truncate'
    )
    {%- endif %}
),

expected as (
    select
        {{ key_list }},
        reference_fold(
            collect_list(_change), {{ fold.order_by_source_time }}, unix_micros(timestamp '{{ built_as_of(model) }}')
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
full join {{ model }} as gold
    on {% for column in fold.key %}live.{{ column }} = gold.{{ column }}{{ ' and ' if not loop.last }}{% endfor %}
where
    gold.{{ fold.key[0] }} is null
    or live.{{ fold.key[0] }} is null
    or not struct(
        unix_micros(gold._position.log_time), gold._position.topic, gold._position.partition, gold._position.offset,
        gold._position.event_index
    ) <=> live._state.position
    or not unix_micros(gold._occurred_at) <=> live._state.occurred_at
    or not unix_micros(gold._max_occurred_at) <=> live._state.max_occurred_at
    or not {{ column_texts('gold', fold.columns) }} <=> live._state.values
{%- endif -%}
{% endtest %}
