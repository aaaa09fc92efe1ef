{#
  Gives the rows of key updates the values that their events leave as they were under the old key.

  Where a row's key changes, Debezium's connectors write a delete of the old key and an insert of
  the new one, each with a header that names the other's key. PostgreSQL, with its default replica
  identity, logs no value that is stored out of line and has not changed: the insert has
  placeholders for those.

  Their values are those of the old key's row just before that delete: of the one with the same
  `_key_update`, wherever it is in the log, for both have a partition of their own. Of rows without
  envelopes, which don't say what change they are of, it is the last one that is not later. Where
  there is none, it is the row before the insert.

  An old key's event may come later than the insert, so this looks at all insert rows that one of
  the new rows may matter to, and at those that rest on them in turn. Rows are changed in place, and
  gold tables and histories fold their keys anew (dbt_lakehouse/build/sql/resting_keys.sql). What
  stays unknown, since nothing is known of the old key's row, is in `_misfits`.

  Arguments:
      log: the declaration.
#}
{% macro take_over_values(log) %}
    {% set news = adapter.key_update_news(this) if log.key and not log.keyless %}
    {% if not news %}
        {% do return(none) %}
    {% endif %}
    {% set own = adapter.pinned_own(this) %}
    {% set updates, resting = dbt.view_of('updates'), dbt.view_of('resting') %}
    {% set all = adapter.evaluate(updates, dbt._key_updates(log, own)) %}
    {% if all and adapter.find_resting(
        resting, dbt._resting_on_news(log, updates, news),
        dbt._resting_on(log, updates, resting), all
    ) %}
        {% set found, sources = dbt.view_of('found'), dbt.view_of('sources') %}
        {% do adapter.evaluate(found, dbt._values_before(log, own, updates, resting)) %}
        {% do adapter.follow_key_updates(sources, dbt._what_rests_on_what(log, found)) %}
        {% do adapter.change(this, dbt._take_over_sql(log, own, found, sources)) %}
    {% endif %}
    {% do adapter.key_updates_done(this) %}
    {% do adapter.drop_evaluated(dbt.view_of('')) %}
{% endmacro %}

{# The rows with values of an old key's row. #}
{% macro _key_updates(log, own) -%}
{%- set key = dbt.quoted(log.key) -%}
select {{ dbt._place() }} as _place, _position, _key_update, {{ key | join(', ') }}
from {{ own }}
-- By a column, whose statistics spare the files without any.
where _key_update.key_before.{{ key[0] }} is not null and size(_key_update.columns) > 0
{%- endmacro %}

{# A row of the log as a text. #}
{% macro _place() -%}
    concat_ws(':', _position.partition, _position.offset, _position.event_index, _position.topic)
{%- endmacro %}

{# The condition that a relation has the old key of another. #}
{% macro _has_old_key(log, relation, update) -%}
    {%- for column in dbt.quoted(log.key) -%}
    {{ relation }}.{{ column }} = {{ update }}._key_update.key_before.{{ column }}
    {{- ' and ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}

{# The places of the rows that are new, or that a new row may matter to. #}
{% macro _resting_on_news(log, updates, news) -%}
select _place from {{ updates }}
left semi join (select _position from {{ news }}) using (_position)
union
select _place from {{ updates }} as updates
left semi join {{ news }} as news
    on
        {{ dbt._has_old_key(log, 'news', 'updates') }}
        -- A later event is one of the next row of that key; but clocks differ a little.
        and coalesce(
            news._position.log_time <= updates._position.log_time + interval 1 hour, true
        )
{%- endmacro %}

{# The places of the rows to look at, and of those that rest on them. #}
{% macro _resting_on(log, updates, resting) -%}
select _place from {{ resting }}
union
select _place from {{ updates }} as updates
left semi join (
    select * from {{ updates }} left semi join {{ resting }} using (_place)
) as others
    on {{ dbt._has_old_key(log, 'others', 'updates') }}
{%- endmacro %}

{#
  For each of the rows the columns of the old key's row before its delete, structs: `is_known` with
  the `value`, or the `text` that did not fit, or `rests_on`, the place of another of the rows,
  whose value it has.
#}
{% macro _values_before(log, own, updates, resting) -%}
{%- set key = dbt.quoted(log.key) -%}
{%- set columns = dbt._value_columns(log) -%}
with updates as (
    select * from {{ updates }} left semi join {{ resting }} using (_place)
),

deletes as (
    select * from {{ own }}
    where _key_update.id is not null and _operation = 'delete'
),

probes as (
    select
        {%- for column in key %}
        updates._key_update.key_before.{{ column }},
        {%- endfor %}
        updates._place,
        coalesce(
            if(
                updates._key_update.change is not null,
                -- The first: messages can come again.
                min(deletes._position),
                max(deletes._position) filter (
                    where deletes._position.log_time <= updates._position.log_time
                )
            ),
            updates._position
        ) as _position
    from updates
    left join deletes
        on
            {{ dbt._has_old_key(log, 'deletes', 'updates') }}
            and deletes._key_update.id = updates._key_update.id
            and deletes._key_update.change <=> updates._key_update.change
    group by updates._key_update, updates._place, updates._position
),

events as (
    select
        {{ (key + columns) | join(', ') }},
        {{ dbt._place() }} as _place,
        _operation,
        _position,
        _unchanged_columns,
        _misfits,
        _key_update.columns as _columns,
        {{ dbt.known_time('_occurred_at', '_kafka_timestamp') }} as _time
    from {{ own }}
    left semi join probes using ({{ key | join(', ') }})
    where _operation in ('snapshot', 'insert', 'update', 'upsert', 'delete')
),

applied as (
    select
        events.*,
        resting._place is not null as _is_resting,
        {% if log.order_by_source_time -%}
        -- One that is late by its time is rejected.
        coalesce(
            _time >= max(_time) over (
                partition by {{ key | join(', ') }}
                order by _position
                rows between unbounded preceding and 1 preceding
            ),
            true
        ) as _in_time
        {%- else -%}
        true as _in_time
        {%- endif %}
    from events
    left join {{ resting }} as resting on events._place = resting._place
),

placed as (
    select *, false as _is_probe from applied
    where _in_time
    union all
    select
        {{ key | join(', ') }},
        {%- for column in columns %}
        null as {{ column }},
        {%- endfor %}
        _place,
        null as _operation,
        _position,
        null as _unchanged_columns,
        null as _misfits,
        null as _columns,
        null as _time,
        false as _is_resting,
        true as _in_time,
        true as _is_probe
    from probes
),

told as (
    select
        _is_probe,
        _place,
        {%- for column in columns %}
        last(
            case
                when _is_probe then null
                when _operation = 'delete' then {{ dbt._value_before() }}
                when _is_resting and array_contains(_columns, {{ dbt.sql_text(column.strip('`')) }})
                    then {{ dbt._value_before(rests_on='_place') }}
                when not {{ dbt.is_unchanged(column) }}
                    then {{ dbt._value_before(column, misfit=column) }}
                when _operation in ('snapshot', 'insert') then {{ dbt._value_before() }}
            end,
            true
        ) over (
            partition by {{ key | join(', ') }}
            order by _position, not _is_probe
            rows between unbounded preceding and 1 preceding
        ) as {{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from placed
)

select * from told where _is_probe
{%- endmacro %}

{# The value columns of a log's rows: what the source said beside those is of one event alone. #}
{% macro _value_columns(log) %}
    {% do return(dbt.quoted(
        log.columns | rejectattr('from', 'defined') | map(attribute='column')
        | reject('in', log.key) | list
    )) %}
{% endmacro %}

{#
  A known value, with its text where that does not fit the column; one that is another row's; or
  with neither one of which nothing is known.
#}
{% macro _value_before(value=none, rests_on=none, misfit=none) -%}
    named_struct(
        'is_known', {{ 'true' if value else 'false' }},
        'value', {{ value or 'null' }},
        'rests_on', {{ rests_on or 'cast(null as string)' }},
        'text',
        {%- if misfit %}
        try_element_at(
            filter(_misfits, misfit -> misfit.column = {{ dbt.sql_text(misfit.strip('`')) }}), 1
        ).text
        {%- else %}
        cast(null as string)
        {%- endif %}
    )
{%- endmacro %}

{#
  The rows that have values of another of the rows, which one, and of which columns: of the last one
  before the delete, so it is the same for all columns.
#}
{% macro _what_rests_on_what(log, found) -%}
{%- set columns = dbt._value_columns(log) -%}
select
    _place,
    coalesce(
        {%- for column in columns %}
        {{ column }}.rests_on{{ ',' if not loop.last }}
        {%- endfor %}
    ) as rests_on,
    array_remove(
        array(
            {%- for column in columns %}
            if({{ column }}.rests_on is not null, {{ dbt.sql_text(column.strip('`')) }}, '')
            {{- ',' if not loop.last }}
            {%- endfor %}
        ),
        ''
    ) as columns
from {{ found }}
where
    {%- for column in columns %}
    {{ column }}.rests_on is not null{{ ' or' if not loop.last }}
    {%- endfor %}
{%- endmacro %}

{# Writes the values into the rows, and says of which columns nothing is known. #}
{% macro _take_over_sql(log, own, found, sources) -%}
{%- set columns = dbt._value_columns(log) -%}
{%- set changed = columns + ['_unchanged_columns', '_misfits'] -%}
merge into {{ this }} as target
using (
    -- A row whose values are others' has one for each of them.
    with of_others as (
        select
            sources.place as _place,
            {%- for column in columns %}
            max_by(
                found.{{ column }},
                array_contains(sources.columns, {{ dbt.sql_text(column.strip('`')) }})
            ) filter (
                where array_contains(sources.columns, {{ dbt.sql_text(column.strip('`')) }})
            ) as {{ column }}{{ ',' if not loop.last }}
            {%- endfor %}
        from {{ sources }} as sources
        inner join {{ found }} as found on sources.source = found._place
        group by sources.place
    ),

    known as (
        select
            found._place,
            {%- for column in columns %}
            if(
                found.{{ column }}.rests_on is null, found.{{ column }}, of_others.{{ column }}
            ) as {{ column }}{{ ',' if not loop.last }}
            {%- endfor %}
        from {{ found }} as found
        left join of_others on found._place = of_others._place
    ),

    told as (
        select
            log.*,
            struct(known.*) as _known,
            array_remove(
                array(
                    {%- for column in columns %}
                    if(
                        array_contains(
                            log._key_update.columns, {{ dbt.sql_text(column.strip('`')) }}
                        )
                        and not coalesce(known.{{ column }}.is_known, false),
                        {{ dbt.sql_text(column.strip('`')) }},
                        ''
                    ){{ ',' if not loop.last }}
                    {%- endfor %}
                ),
                ''
            ) as _unknown
        from (
            select *, {{ dbt._place() }} as _place from {{ own }}
            where _key_update.key_before.{{ dbt.quoted(log.key)[0] }} is not null
        ) as log
        inner join known on log._place = known._place
    )

    select
        _position,
        {%- for column in columns %}
        if(
            array_contains(_key_update.columns, {{ dbt.sql_text(column.strip('`')) }}),
            _known.{{ column }}.value,
            {{ column }}
        ) as {{ column }},
        {%- endfor %}
        _unknown as _unchanged_columns,
        filter(_misfits, misfit -> not array_contains(_key_update.columns, misfit.column))
        || transform(
            _unknown,
            column -> named_struct('column', column, 'text', '__debezium_unavailable_value')
        )
        -- What did not fit in the old key's row is told, and filled later, in this one too.
        || filter(
            array(
                {%- for column in columns %}
                named_struct(
                    'column', {{ dbt.sql_text(column.strip('`')) }},
                    'text', _known.{{ column }}.text
                ){{ ',' if not loop.last }}
                {%- endfor %}
            ),
            misfit
            -> misfit.text is not null and array_contains(_key_update.columns, misfit.column)
        ) as _misfits
    from told
) as source
on
    target._key_update.key_before.{{ dbt.quoted(log.key)[0] }} is not null
    and target._position = source._position
when matched and {{ dbt.columns_differ(changed) }} then update set
    {{ dbt.set_columns(changed) }}
{%- endmacro %}
