{#
  The events of a change log in the fold's form: key, columns, and `_operation`, `_occurred_at`,
  `_lh_guard_time` (the time that later events are compared with), `_position`, `_expires_at`,
  `_lh_is_state` (false: not a summary of earlier events), `_lh_is_clock_ahead`,
  `_unchanged_columns`. An update that has replaced its key is also a delete of the old key.
  Truncates are not events of a key: see truncates.

  Arguments:
      fold: the Fold.
      changes: the log to select from.
      deletes: the table of deletes without a set, or none.
      keys: a relation with the key columns, to take only their events, or none for all.
      ranges: the ranges of these keys (parts.is_in_key_ranges), to read only files that may have
          them.
#}
{% macro log_events(fold, changes, deletes=none, keys=none, ranges=()) %}
{% set no_names = 'cast(null as array<string>)' %}
select
    {{ (fold.key + fold.columns) | join(', ') }},
    _operation,
    {{ parts.known_time() | indent }} as _occurred_at,
    {{ parts.known_time() | indent }} as _lh_guard_time,
    _position,
    {{ '_expires_at' if fold.namespace else 'cast(null as timestamp) as _expires_at' }},
    false as _lh_is_state,
    _occurred_at is not null and {{ parts.known_time() | indent }} is null as _lh_is_clock_ahead,
    {{ '_unchanged_columns' if fold.partial or not fold.namespace else no_names }}
        as _unchanged_columns
from {{ changes }} as changes
{% if keys %}
left semi join {{ keys }} using ({{ fold.key_list }})
{% endif %}
where
    _operation in ({{ operations_of_rows }})
    and {{ fold.key | each('{} is not null') | join(' and ') }}
{% if ranges %}
    and {{ parts.is_in_key_ranges('changes.' ~ fold.key[0], ranges) | indent }}
{% endif %}
{% if not fold.namespace %}
union all
select * from (
    select
        {{ fold.key | each('_previous_key.{}') | join(', ') }},
        {{ '`_source`,' if fold.several_sources }}
        {{ fold.values | each('null as {}') | lines_with_commas | indent(8) }}
        'delete' as _operation,
        {{ parts.known_time() | indent(8) }} as _occurred_at,
        {{ parts.known_time() | indent(8) }} as _lh_guard_time,
        _position,
        cast(null as timestamp) as _expires_at,
        false as _lh_is_state,
        -- Counted with the new key.
        false as _lh_is_clock_ahead,
        {{ no_names }} as _unchanged_columns
    from {{ changes }} as changes
    -- By a column, whose statistics spare the files without any.
    where
        {{ fold.key | each('_previous_key.{} is not null') | join(' and ') }}
        {% if ranges %}
        and {{ parts.is_in_key_ranges('_previous_key.' ~ fold.key[0], ranges) | indent(8) }}
        {% endif %}
)
{% if keys %}
left semi join {{ keys }} using ({{ fold.key_list }})
{% endif %}
{% endif %}
{% if deletes %}
union all
select * from ({{ set_less_deletes(fold, deletes) | indent }})
left semi join (select _digest from {{ keys or changes }}) using (_digest)
{% endif %}
{%- endmacro %}

{#
  The deletes without a set in the fold's namespace, in the form of log_events. Each is one of the
  keys of a log that has its digest.

  Arguments:
      deletes: the table of deletes without a set, to select from.
#}
{% macro set_less_deletes(fold, deletes) %}
select
    _digest,
    {{ fold.columns | each('null as {}') | lines_with_commas | indent }}
    _operation,
    {{ parts.known_time() | indent }} as _occurred_at,
    {{ parts.known_time() | indent }} as _lh_guard_time,
    _position,
    cast(null as timestamp) as _expires_at,
    false as _lh_is_state,
    _occurred_at is not null and {{ parts.known_time() | indent }} is null as _lh_is_clock_ahead,
    cast(null as array<string>) as _unchanged_columns
from {{ deletes }} as deletes
where _namespace = {{ fold.namespace | literal }}
{%- endmacro %}

{#
  All events of a log, or of some of its keys, as of log_events. For a log of several source tables
  they include the truncates of the tables of each key's events.

  Arguments:
      has_truncates: whether the log may have any.
#}
{% macro all_events(fold, changes, deletes=none, keys=none, has_truncates=true, ranges=()) %}
{{ log_events(fold, changes, deletes, keys, ranges) }}
{% if fold.several_sources and has_truncates %}
union all
select distinct
    {{ fold.key | each('events.{}') | join(', ') }},
    truncates._source as `_source`,
    {{ fold.values | each('null as {}') | lines_with_commas | indent }}
    'truncate' as _operation,
    truncates._lh_time as _occurred_at,
    truncates._lh_time as _lh_guard_time,
    truncates._position,
    cast(null as timestamp) as _expires_at,
    false as _lh_is_state,
    false as _lh_is_clock_ahead,
    cast(null as array<string>) as _unchanged_columns
from ({{ log_events(fold, changes, none, keys, ranges) }}) as events
inner join ({{ truncates(fold, changes) }}) as truncates
    on events._source = truncates._source and events._position < truncates._position
{% endif %}
{%- endmacro %}

{#
  The truncates of a log: `_position`, `_lh_time`, and in a log of several source tables `_source`,
  the emptied table.

  Arguments:
      changes: the log to select from.
#}
{% macro truncates(fold, changes) %}
select
    _position,
    {{ parts.known_time() | indent }} as _lh_time
    {{- ', _source' if fold.several_sources }}
from {{ changes }} as changes
-- A truncate has no key; by that, statistics spare the files without any.
where {{ fold.key[0] }} is null and _operation = 'truncate'
{%- endmacro %}

{#
  A namespace's remembered deletes without a set: one or two events per key, and whether they are
  new to the running model.

  Arguments:
      remembered: `deleted_keys` as it is to be read.
      sequence: the sequence number up to which the model has read it.
#}
{% macro remembered_deletes(namespace, remembered, sequence) %}
select
    get_json_object(record_key, '$.digest') as _digest,
    inline(filter(
        array(
            struct(max_occurred_at as _occurred_at, position as _position),
            struct(cast(null as timestamp) as _occurred_at, null_position as _position)
        ),
        -- A state without any time has its position in both.
        (event, i) -> event._position is not null and (event._occurred_at is not null or i = 1)
    )),
    _last_updated_sequence_number > {{ sequence }} as _lh_is_new
from {{ remembered }}
where scope = {{ ('aerospike:' ~ namespace) | literal }}
{%- endmacro %}

{#
  The rows that the changes in a log of a table without a key add and remove: `_lh_columns`, `_row`,
  `_lh_step` (1 or -1), `_position`, and `_lh_beside`, the values that the source sent beside the
  row.

  Arguments:
      changes: the log to select from.
#}
{% macro row_steps(fold, changes) %}
{% set columns = 'struct(' ~ fold.row_columns | join(', ') ~ ')' %}
{% set previous = (['`_source`'] if fold.several_sources else [])
    + (fold.values | reject('in', fold.beside) | each('_previous_key.{}')) %}
select
    step.*,
    md5({{ parts.exact_json('step._lh_columns') | indent }}) as _row,
    {% if fold.beside %}
    struct({{ fold.beside | join(', ') }}) as _lh_beside,
    {% endif %}
    _position
from {{ changes }} as changes
    -- An update removes before it adds.
    lateral view inline(filter(
        array(
            struct(
                if(
                    _operation = 'delete',
                    {{ columns }},
                    if(_previous_key is null, null, struct({{ previous | join(', ') }}))
                ) as _lh_columns,
                -1 as _lh_step
            ),
            struct(if(_operation <> 'delete', {{ columns }}, null) as _lh_columns, 1 as _lh_step)
        ),
        step -> step._lh_columns is not null
    )) step as _lh_columns, _lh_step
where _operation in ({{ operations_of_rows }})
{%- endmacro %}
