{#
  A gold table equals the fold of its change log by the plain Python reference in tests/reference_fold.py: the same
  keys are live, each row is that of the event the reference applied last, and its times are the same.

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
        _operation,
        unix_micros(_occurred_at),
        unix_micros(_kafka_timestamp),
        struct(unix_micros(_position.log_time), _position.topic, _position.partition, _position.offset, _position.event_index),
        {expires_at}
    ) as change
{%- endset -%}
with log as (
    select * from {{ log }}
    where _operation <> 'truncate' {% for column in fold.key %} and {{ column }} is not null{% endfor %}
),

changes as (
    select {{ key_list }}, {{ change | replace('{expires_at}', 'unix_micros(_expires_at)' if fold.namespace else 'cast(null as bigint)') }}
    from log
    {%- if fold.namespace %}
    union all
    select _digest, {{ change | replace('{expires_at}', 'cast(null as bigint)') }}
    from {{ deletes }}
    where _namespace = {{ sql_text(fold.namespace) }} and _digest in (select _digest from log)
    {%- endif %}
),

expected as (
    select
        {{ key_list }},
        reference_fold(
            collect_list(change), {{ fold.order_by_source_time }}, unix_micros(timestamp '{{ built_as_of(model) }}')
        ) as state
    from changes
    group by {{ key_list }}
),

live as (
    select expected.*, log.* except ({{ key_list }})
    from expected
    left join log
        on {% for column in fold.key %}expected.{{ column }} = log.{{ column }} and {% endfor -%}
        state.position.topic = log._position.topic
        and state.position.partition = log._position.partition
        and state.position.offset = log._position.offset
        and state.position.event_index = log._position.event_index
    where state.is_live
)

select
    {%- for column in fold.key %}
    coalesce(live.{{ column }}, gold.{{ column }}) as {{ column }},
    {%- endfor %}
    case
        when gold.{{ fold.key[0] }} is null then 'missing in gold'
        when live.{{ fold.key[0] }} is null then 'should not be in gold'
        else 'differs from the event that was applied last'
    end as difference,
    live.state,
    gold._position
from live
full join {{ model }} as gold
    on {% for column in fold.key %}live.{{ column }} = gold.{{ column }}{{ ' and ' if not loop.last }}{% endfor %}
where
    gold.{{ fold.key[0] }} is null
    or live.{{ fold.key[0] }} is null
    or not gold._position <=> live._position
    or not unix_micros(gold._occurred_at) <=> live.state.occurred_at
    or not unix_micros(gold._max_occurred_at) <=> live.state.max_occurred_at
    or to_json(struct(gold.{{ fold.columns | join(', gold.') }}))
    <> to_json(struct(live.{{ fold.columns | join(', live.') }}))
{%- endif -%}
{% endtest %}
