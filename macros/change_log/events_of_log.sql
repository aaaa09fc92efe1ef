{#
  The events that a change log reads, to select from, each with its typed row (`change`): of new
  payloads by a function that knows the log, straight from the bytes, and of the rows that
  other_events has of it by their texts. Which columns there are beside those says `_head`.

  Arguments:
      run: the NodeRun, or none for what is compiled only.
      log: the declaration.
      keys: as in change_log_sql.
#}
{% macro log_events(run, log, keys=[]) -%}
    {%- if adapter.is_chosen_by_texts(log) -%}
        {{ dbt.typed_events(dbt.events_of_log(run, log), log, keys) }}
    {%- else -%}
    {%- set input = dbt._log_input(run, log, 'new') -%}
    {%- set format = input.format or dbt.payload_format() -%}
    {%- set relations = [] -%}
    {%- if input.payloads is not none -%}
        {%- set payloads = dbt._payloads_to_read(
            input, format, adapter.payload_conditions(log)
        ) -%}
        {%- set schemas = dbt.know_schemas_of(payloads, format) -%}
        {%- set function = adapter.log_function(model.name, log, keys, schemas) -%}
        {%- do relations.append(dbt._with_head(dbt._wanted(
            dbt.events_in(
                payloads, format, function, dbt._head() + ['change'], more=['log_time']
            ),
            input,
            adapter.event_conditions(log)
        ))) -%}
    {%- endif -%}
    {%- if input.added is not none or not relations -%}
        {%- set added = dbt._added(input, [dbt.is_change()] + log.conditions) -%}
        {%- do relations.append(dbt._with_head(dbt.typed_events(added, log, keys))) -%}
    {%- endif -%}
    ({{ relations | join('\nunion all\n') }})
    {%- endif -%}
{%- endmacro %}

{#
  The same events as their payloads say them, to select from: the columns of other_events without
  added_by.

  Arguments, beside those of log_events:
      part: which events, as dbt_lakehouse/dbt/log_input.py calls them.
      near: a condition on `log_time` that they meet; none for any.
#}
{% macro events_of_log(run, log, part='new', near=none) -%}
    {{ dbt.events_of(
        dbt._log_input(run, log, part),
        adapter.payload_conditions(log) + ([near] if near else []),
        [dbt.is_change()] + adapter.event_conditions(log)
    ) }}
{%- endmacro %}

{# What is read; of what is compiled only, all that there is. #}
{% macro _log_input(run, log, part) %}
    {% if run is not none %}
        {% do return(adapter.log_input(run, log, part)) %}
    {% endif %}
    {% do return({
        'payloads': source('bronze', 'raw_payloads'),
        'topics': none,
        'format': none,
        'added': ref('other_events'),
        'log_times': none,
        'excluded': none,
        'may_name': none
    }) %}
{% endmacro %}

{# The columns of an event that tell where it is from, and what its row does not say. #}
{% macro _head() %}
    {% do return([
        'event_index', 'operation', 'source_database', 'source_schema', 'source_table',
        'record_key', 'occurred_at', 'expires_at', 'metadata'
    ]) %}
{% endmacro %}

{#
  Events with their rows.

  Arguments:
      events: a relation with the columns of other_events.
#}
{% macro typed_events(events, log, keys=[], former=none) -%}
(
    -- A function of the log's own, which knows its columns: python_udfs/typed, where it is said
    -- what a column's value is. Evaluated once for each row.
    select
        *,
        {{ adapter.typed_rows(model.name, log, keys, former) }}(
            operation,
            before,
            after,
            {#- A record's digest is none of the columns. #}
            {{ 'record_key' if log.namespace is none else 'cast(null as string)' }},
            metadata
        ) as change
    from {{ events }}
)
{%- endmacro %}

{# Events with their rows, in the same columns wherever they are from. #}
{% macro _with_head(events) -%}
select
    topic,
    partition,
    offset,
    timestamp,
    format,
    log_time,
    {{ (dbt._head() + ['change']) | join(',\n    ') }}
from {{ events }}
{%- endmacro %}
