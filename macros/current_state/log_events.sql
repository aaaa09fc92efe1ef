{#
  The events of a change log as the fold takes them: key, columns, and `_operation`,
  `_occurred_at`, `_guard_time` (what later events are held against), `_position`, `_expires_at`,
  `_is_state` (false: no summary of earlier events), `_is_clock_ahead`, `_unchanged_columns`. An
  update that has replaced its key is a delete of the old key too. Truncates are no events of a
  key: see _truncation_of.

  Arguments:
      changes: the log to select from.
      deletes: the table of deletes without a set, or none.
      keys: a relation with the key columns, to take only their events, or none for all.
#}
{% macro _log_events(fold, changes, deletes, keys=none) -%}
    {%- set key_list = fold.key | join(', ') -%}
    {%- set known = known_time('_occurred_at', '_kafka_timestamp') -%}
    {%- set no_names = 'cast(null as array<string>)' -%}
select
    {{ (fold.key + fold.columns) | join(', ') }},
    _operation,
    {{ known }} as _occurred_at,
    {{ known }} as _guard_time,
    _position,
    {{ '_expires_at' if fold.namespace else 'cast(null as timestamp) as _expires_at' }},
    false as _is_state,
    _occurred_at is not null and {{ known }} is null as _is_clock_ahead,
    {{ '_unchanged_columns' if fold.partial or not fold.namespace else no_names }}
        as _unchanged_columns
from {{ changes }} as changes
{{ 'left semi join ' ~ keys ~ ' using (' ~ key_list ~ ')' if keys }}
where
    _operation in ('snapshot', 'insert', 'update', 'upsert', 'delete')
    {%- for column in fold.key %}
    and {{ column }} is not null
    {%- endfor %}
    {%- if not fold.namespace %}
union all
select * from (
    select
        {%- for column in fold.key %}
        _previous_key.{{ column }},
        {%- endfor %}
        {{ _no_columns(fold) | indent(4) }}
        'delete' as _operation,
        {{ known }} as _occurred_at,
        {{ known }} as _guard_time,
        _position,
        cast(null as timestamp) as _expires_at,
        false as _is_state,
        -- Counted with the new key.
        false as _is_clock_ahead,
        {{ no_names }} as _unchanged_columns
    from {{ changes }} as changes
    -- By a column, whose statistics spare the files without any.
    where
        {% for column in fold.key %}
        _previous_key.{{ column }} is not null{{ ' and ' if not loop.last }}
        {% endfor %}
)
{{ 'left semi join ' ~ keys ~ ' using (' ~ key_list ~ ')' if keys }}
    {%- endif %}
    {%- if deletes %}
union all
select
    _digest,
    {{ _no_columns(fold) }}
    _operation,
    {{ known }} as _occurred_at,
    {{ known }} as _guard_time,
    _position,
    cast(null as timestamp) as _expires_at,
    false as _is_state,
    _occurred_at is not null and {{ known }} is null as _is_clock_ahead,
    {{ no_names }} as _unchanged_columns
from {{ deletes }} as deletes
left semi join (select _digest from {{ keys or changes }}) using (_digest)
where _namespace = {{ sql_text(fold.namespace) }}
    {%- endif -%}
{%- endmacro %}

{# The value columns of an event that has none. #}
{% macro _no_columns(fold) -%}
    {%- for column in fold.columns %}
    null as {{ column }},
    {%- endfor %}
{%- endmacro %}

{# Whether an event leaves a column as it was. #}
{% macro _is_unchanged(column) -%}
    coalesce(array_contains(_unchanged_columns, {{ sql_text(column.strip('`')) }}), false)
{%- endmacro %}
