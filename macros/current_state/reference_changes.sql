{#
  The changes of a log as the plain Python references take them: the key columns,
  and `_change`.

  Arguments:
      fold: the Fold.
      log: the change log.
      deletes: the table of deletes without a set.
#}
{% macro reference_changes(fold, log, deletes) -%}
{%- set key_list = fold.key | join(', ') -%}
{%- set change -%}
    struct(
        {operation},
        unix_micros(_occurred_at),
        unix_micros(_kafka_timestamp),
        struct(
            unix_micros(_position.log_time), _position.topic, _position.partition,
            _position.offset, _position.event_index
        ),
        {expires_at},
        {values},
        {unchanged},
        {source}
    ) as _change
{%- endset -%}
{%- set change = change
    | replace('{source}', 'to_json(_source)' if fold.several_sources else 'cast(null as string)')
-%}
{%- set bare = change
    | replace('{expires_at}', 'cast(null as bigint)')
    | replace('{values}', 'array_repeat(cast(null as string), ' ~ fold.columns | length ~ ')')
    | replace('{unchanged}', 'cast(array() as array<int>)') -%}
with log as (
    select * from {{ log }}
    where
        _operation <> 'truncate'
        {% for column in fold.key %}
        and {{ column }} is not null
        {% endfor %}
)

select
    {{ key_list }},
    {{ change
        | replace('{operation}', '_operation')
        | replace(
            '{expires_at}',
            'unix_micros(_expires_at)' if fold.namespace else 'cast(null as bigint)'
        )
        | replace('{values}', dbt.column_texts('log', fold.columns))
        | replace(
            '{unchanged}',
            dbt.unchanged_places(fold.columns) if fold.partial or not fold.namespace
            else 'cast(array() as array<int>)'
        ) }}
from log
{%- if fold.namespace %}
union all
select _digest, {{ bare | replace('{operation}', '_operation') }}
from {{ deletes }}
where _namespace = {{ dbt.sql_text(fold.namespace) }} and _digest in (select _digest from log)
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
    select {{ bare | replace('{operation}', '_operation') }}
    from {{ log }}
    where _operation = 'truncate'
)
{%- endif %}
{%- endmacro %}
