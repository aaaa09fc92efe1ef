{#
  The events of a change log as the fold takes them: key, columns, and `_operation`,
  `_occurred_at`, `_guard_time` (what later events are held against), `_position`, `_expires_at`,
  `_is_state` (false: no summary of earlier events), `_is_clock_ahead`, `_unchanged_columns`. An
  update that has replaced its key is a delete of the old key too. Truncates are no events of a
  key: see truncates_sql.

  Arguments:
      fold: the Fold.
      changes: the log to select from.
      deletes: the table of deletes without a set, or none.
      keys: a relation with the key columns, to take only their events, or none for all.
#}
{% macro log_events_sql(fold, changes, deletes=none, keys=none) -%}
    {%- set key_list = fold.key | join(', ') -%}
    {%- set known = dbt.known_time('_occurred_at', '_kafka_timestamp') -%}
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
        {%- for column in fold.columns %}
        {{ 'null as ' if column != '`_source`' }}{{ column }},
        {%- endfor %}
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
    {{ dbt.no_columns(fold) }}
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
where _namespace = {{ dbt.sql_text(fold.namespace) }}
    {%- endif -%}
{%- endmacro %}

{#
  All events of a log, or of some of its keys, as of log_events_sql; of a log of several source
  tables, the truncates of those that a key's events are of too.

  Arguments:
      has_truncates: whether the log may have any.
#}
{% macro all_events_sql(fold, changes, deletes=none, keys=none, has_truncates=true) -%}
{{ dbt.log_events_sql(fold, changes, deletes, keys) }}
    {%- if fold.several_sources and has_truncates %}
union all
select distinct
    {% for column in fold.key %}
    events.{{ column }},
    {% endfor %}
    {{- dbt.truncate_columns(fold, 'truncates') | indent(4) }}
from ({{ dbt.log_events_sql(fold, changes, none, keys) }}) as events
inner join ({{ dbt.truncates_sql(fold, changes) }}) as truncates
    on events._source = truncates._source and events._position < truncates._position
    {%- endif -%}
{%- endmacro %}

{#
  A truncate as an event of a key, without its key columns.

  Arguments:
      truncates: the alias of a relation as of truncates_sql.
#}
{% macro truncate_columns(fold, truncates) -%}
    {%- for column in fold.columns %}
    {{ truncates ~ '._source' if column == '`_source`' else 'null' }} as {{ column }},
    {%- endfor %}
    'truncate' as _operation,
    {{ truncates }}._time as _occurred_at,
    {{ truncates }}._time as _guard_time,
    {{ truncates }}._position,
    cast(null as timestamp) as _expires_at,
    false as _is_state,
    false as _is_clock_ahead,
    cast(null as array<string>) as _unchanged_columns
{%- endmacro %}

{# The value columns of an event that has none. #}
{% macro no_columns(fold) -%}
    {%- for column in fold.columns %}
    null as {{ column }},
    {%- endfor %}
{%- endmacro %}
