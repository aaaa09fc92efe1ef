{# Parts of statements that compare a table with the plain Python references. #}

{# The columns as an array of texts, each by itself: null and absent are the same. #}
{% macro column_texts(relation, columns) %}
cast(array(
    {% for column in columns %}
    {{ parts.exact_json('struct(' ~ relation ~ '.' ~ column ~ ')') | indent }}
    {{- ',' if not loop.last }}
    {% endfor %}
) as array<string>)
{%- endmacro %}

{# The places in that array of the columns that an event leaves unchanged. #}
{% macro unchanged_places(columns) %}
cast(filter(array(
    {% for column in columns %}
    if({{ parts.is_unchanged(column) }}, {{ loop.index0 }}, null){{ ',' if not loop.last }}
    {% endfor %}
), place -> place is not null) as array<int>)
{%- endmacro %}

{#
  A relation, or its rows of some keys.

  Arguments:
      keys: SQL of the keys, or none.
      key: the key columns.
#}
{% macro rows_of_keys(relation, keys, key) %}
{% if keys %}
(
    select * from {{ relation }} left semi join ({{ keys | indent }}) using ({{ key | join(', ') }})
)
{%- else %}
{{ relation }}
{%- endif %}
{%- endmacro %}

{#
  The changes of a log in the references' form: the key columns, and `_lh_change`.

  Arguments:
      fold: the Fold.
      log: the change log, to select from.
      deletes: for a namespace, the deletes without a set, to select from.
#}
{% macro changes(fold, log, deletes) %}
with log as (
    select * from {{ log }}
    where
        _operation <> 'truncate'
        and {{ fold.key | each('{} is not null') | join(' and ') }}
)

select
    {{ fold.key_list }},
    {{ _change(
        fold,
        expires_at='unix_micros(_expires_at)' if fold.namespace,
        values=column_texts('log', fold.columns),
        unchanged=unchanged_places(fold.columns) if fold.partial or not fold.namespace
    ) | indent }}
from log
{% if fold.namespace %}
union all
select
    _digest,
    {{ _change(fold) | indent }}
from {{ deletes }}
where _namespace = {{ fold.namespace | literal }} and _digest in (select _digest from log)
{% else %}
-- An update that has replaced its key is a delete of the old one.
union all
select
    _previous_key.*,
    {{ _change(
        fold,
        operation="'delete'",
        values=_source_alone(fold) if fold.deleted_rows and fold.several_sources
    ) | indent }}
from log
where _previous_key is not null
union all
select {{ fold.key_list }}, _lh_change
from (
    select {{ fold.key_list }} from log
    union
    select _previous_key.* from log where _previous_key is not null
)
cross join (
    select
        {{ _change(fold) | indent(8) }}
    from {{ log }}
    where _operation = 'truncate'
)
{% endif %}
{%- endmacro %}

{# A position in the references' form. #}
{% macro position(fold, position='_position') %}
struct(
    unix_micros({{ position }}.log_time) as log_time,
    {{ position }}.topic,
    {{ position }}.partition,
    {{ position }}.offset,
    {{ position }}.event_index,
    {{ position ~ '.source' if fold.order_by else 'cast(null as string)' }} as source
)
{%- endmacro %}

{# The columns as texts, of which only `_source`, the first one, is known. #}
{% macro _source_alone(fold) %}
{{ column_texts('log', fold.columns[:1]) }}
|| array_repeat(cast(null as string), {{ fold.columns | length - 1 }})
{%- endmacro %}

{# A change; the defaults are one without values of the columns. #}
{% macro _change(fold, operation='_operation', expires_at=none, values=none, unchanged=none) %}
struct(
    {{ operation }},
    unix_micros(_occurred_at),
    unix_micros(_kafka_timestamp),
    {{ position(fold) | indent }},
    {{ expires_at or 'cast(null as bigint)' }},
    {{ (values or 'array_repeat(cast(null as string), ' ~ fold.columns | length ~ ')') | indent }},
    {{ (unchanged or 'cast(array() as array<int>)') | indent }},
    {{ 'to_json(_source)' if fold.several_sources else 'cast(null as string)' }}
) as _lh_change
{%- endmacro %}
