{#
  Fills columns that the running change log has declared since its rows were written, or with a
  wider type: from the same change events, or from the texts that are kept of what did not fit, into
  the rows that have something to say of them. All other rows and files stay as they are.

  Arguments:
      run: the NodeRun.
      log: the declaration.
#}
{% macro fill_change_log(run, log) %}
    {% set encoded = log.columns | selectattr('encoding') | map(attribute='column') | list %}
    {% set widened = run.to_fill.keys() | reject('in', log.key + encoded) | list %}
    {% if widened | length == run.to_fill | length and none not in run.to_fill.values() | list %}
        {% do dbt._fill_from_misfits(widened, log) %}
        {% do dbt.log_info(this ~ ': filled ' ~ widened | join(', ') ~ ' from misfits') %}
        {% do return(none) %}
    {% endif %}
    {% set filled = dbt.quoted(run.to_fill) + ['_changed_columns', '_misfits'] %}
    {% if log.key or log.partial %}
        {% do filled.append('_unchanged_columns') %}
    {% endif %}
    {% if log.key and not log.keyless %}
        {% do filled.append('_key_update') %}
    {% endif %}
    {% do adapter.change(this, '
        merge into ' ~ this ~ ' as target
        using (' ~ dbt.change_log_sql(log, dbt._events_read_before(run, log)) ~ ') as source
        on
            -- Without the log time: a truncate nearby may have moved it.
            target._position.topic = source._position.topic
            and target._position.partition = source._position.partition
            and target._position.offset = source._position.offset
            and target._position.event_index = source._position.event_index
        when matched and ' ~ dbt.columns_differ(filled) ~ ' then update set
            ' ~ dbt.set_columns(filled)
    ) %}
    {% do dbt.log_info(this ~ ': filled ' ~ run.to_fill | join(', ') ~ ' from earlier events') %}
{% endmacro %}

{#
  Puts what did not fit into its columns where it does by now. What has changed inside of a column
  is no value of it.
#}
{% macro _fill_from_misfits(columns, log) %}
    {% set filled = dbt.quoted(columns) + ['_misfits'] %}
    {% do adapter.change(this, '
        merge into ' ~ this ~ ' as target
        using (' ~ dbt._values_of_misfits_sql(columns, log) ~ ') as source
        on target._position = source._position and size(target._misfits) > 0
        when matched and ' ~ dbt.columns_differ(filled) ~ ' then update set
            ' ~ dbt.set_columns(filled)
    ) %}
{% endmacro %}

{# The rows with misfits, as they are with those that fit by now in their columns. #}
{% macro _values_of_misfits_sql(columns, log) -%}
with held as (
    select
        *,
        {{ adapter.typed_misfits(model.name, log, columns) }}(_misfits) as fitting
    from {{ adapter.pinned_own(this) }}
    where size(_misfits) > 0
),

told as (
    select
        *,
        array(
            {%- for name in columns %}
            if(
                fitting.{{ adapter.quote(name) }} is not null
                {%- if log.key or log.partial %}
                and not coalesce(
                    array_contains(_unchanged_columns, {{ dbt.sql_text(name) }}), false
                )
                {%- endif %},
                {{ dbt.sql_text(name) }},
                ''
            ){{ ',' if not loop.last }}
            {%- endfor %}
        ) as filled
    from held
)

select
    _position,
    {%- for name in columns %}
    {%- set column = adapter.quote(name) %}
    if(array_contains(filled, {{ dbt.sql_text(name) }}), fitting.{{ column }}, {{ column }})
        as {{ column }},
    {%- endfor %}
    filter(_misfits, misfit -> not array_contains(filled, misfit.column)) as _misfits
from told
{%- endmacro %}

{# The events that earlier runs have read, those that may say something of the columns. #}
{% macro _events_read_before(run, log) %}
    {% set before = dbt.events_of_log(run, log, 'before') %}
    {% set saying = adapter.events_that_say(log, run.to_fill) %}
    {% do return(dbt.typed_events(
        '(select * from ' ~ before ~ ' where ' ~ saying ~ ')' if saying else before, log
    )) %}
{% endmacro %}
