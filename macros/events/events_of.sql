{#
  Events as their payloads say them, to select from.

  Arguments:
      input: what is read, as adapter.log_input gives it.
      of_payloads, of_events: conditions that payloads meet, and that events meet.
#}
{% macro events_of(input, of_payloads, of_events) -%}
    {%- set format = input.format or dbt.payload_format() -%}
    {%- set columns = dbt._event_columns() | join(', ') -%}
    {%- set relations = [] -%}
    {%- if input.payloads is not none and input.topics != [] -%}
        {%- set payloads = dbt._payloads_to_read(input, format, of_payloads) -%}
        {%- do dbt.know_schemas_of(payloads, format) -%}
        {%- set events = dbt.events_in(payloads, format, more=['log_time']) -%}
        {%- do relations.append(
            'select ' ~ columns ~ ' from ' ~ dbt._wanted(events, input, of_events)
        ) -%}
    {%- endif -%}
    {%- if input.added is not none or not relations -%}
        {%- do relations.append(
            'select ' ~ columns ~ ' from ' ~ dbt._added(input, of_payloads + of_events)
        ) -%}
    {%- endif -%}
    ({{ relations | join('\nunion all\n') }})
{%- endmacro %}

{# The columns of an event. #}
{% macro _event_columns() %}
    {% do return(
        ['topic', 'partition', 'offset', 'timestamp', 'log_time', 'format'] + dbt._event_fields()
    ) %}
{% endmacro %}

{# The payloads that are read, with their formats and log times, to select from. #}
{% macro _payloads_to_read(input, format, conditions) -%}
(
    select * from (
        select
            payloads.*,
            {%- if input.log_times %}
            coalesce(log_times.log_time, payloads.timestamp) as log_time,
            {%- else %}
            payloads.timestamp as log_time,
            {%- endif %}
            {{ format | indent(12) }} as format
        from {{ input.payloads }} as payloads
        {%- if input.log_times %}
        left join {{ input.log_times }} as log_times using (topic, partition, offset)
        {%- endif %}
        {%- if input.topics is not none %}
        where topic in ({{ adapter.sql_texts(input.topics) }})
        {%- endif %}
    )
    {%- set all = conditions + ([input.may_name] if input.may_name else []) %}
    {%- if all %}
    where {{ all | join(' and ') }}
    {%- endif %}
)
{%- endmacro %}

{#
  Of the events of payloads those that are wanted, without what was decoded at another time. That is
  all of a payload on which a decoder failed, or whose beginning was invalid in another format.
#}
{% macro _wanted(events, input, conditions) -%}
(
    select events.* from {{ events }} as events
    {%- if input.excluded is not none %}
    left anti join (
        select
            topic,
            partition,
            offset,
            event_index,
            format,
            if(operation = 'invalid' and event_index = 0, error_code, null) as began_with
        from {{ input.excluded }}
        where operation = 'invalid' or added_by = 'redrive'
    ) as excluded
        on
            events.topic = excluded.topic
            and events.partition = excluded.partition
            and events.offset = excluded.offset
            and (
                events.event_index = excluded.event_index
                or excluded.began_with = 'decoder_failed'
                or (excluded.began_with is not null and not events.format <=> excluded.format)
            )
    {%- endif %}
    {%- if conditions %}
    where {{ conditions | join(' and ') }}
    {%- endif %}
)
{%- endmacro %}

{# Events that no payload says by itself, to select from. #}
{% macro _added(input, conditions) -%}
(
    select * from {{ input.added or '(select * from ' ~ input.none ~ ' where false)' }}
    where {{ (['added_by is not null'] + conditions) | join(' and ') }}
)
{%- endmacro %}

{# Whether an event changes a row. #}
{% macro is_change() -%}
    operation in ('snapshot', 'insert', 'update', 'upsert', 'delete', 'truncate')
{%- endmacro %}
