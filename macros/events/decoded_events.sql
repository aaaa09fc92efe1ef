{#
  The events of payloads as today's decoders and `vars.topics` read them, to select from: topic,
  partition, offset, timestamp, format, and what `decode_payload` says of each event.

  Arguments:
      payloads: a relation with topic, partition, offset, timestamp, key, value and headers.
#}
{% macro decoded_events(payloads) -%}
    {%- set format = dbt.payload_format() -%}
    {%- set payloads = '(select *, ' ~ format ~ ' as format from ' ~ payloads ~ ')' -%}
    {%- do dbt.know_schemas_of(payloads, format) -%}
    {{ dbt.events_in(payloads, format) }}
{%- endmacro %}

{#
  What a function says of the events of payloads, beside where they came from, to select from.

  Arguments:
      payloads: a relation as of decoded_events, with format.
      format: the SQL that format is made of.
      function: its name.
      fields: the columns of what it says.
      more: further columns of the payloads.
      of_topic: whether the function asks for their topic, in front.
#}
{% macro events_in(
    payloads, format, function='decode_payload', fields=none, more=[], of_topic=false
) -%}
    (
        select
            payloads.topic,
            payloads.partition,
            payloads.offset,
            payloads.timestamp,
            payloads.format,
            {%- for column in more %}
            payloads.{{ column }},
            {%- endfor %}
            event.*
        from {{ payloads }} as payloads
            lateral view inline({{ function }}(
                {{- 'topic, ' if of_topic }}{{ dbt._message_of(format) -}}
            )) event as
            {{ (fields or dbt._event_fields()) | join(', ') }}
    )
{%- endmacro %}

{# The columns of what `decode_payload` says of an event. #}
{% macro _event_fields() %}
    {% do return([
        'event_index', 'operation', 'source_database', 'source_schema', 'source_table',
        'record_key', 'before', 'after', 'occurred_at', 'expires_at', 'metadata', 'error_code',
        'error_detail'
    ]) %}
{% endmacro %}

{#
  Finds the schemas of a registry that payloads name, if any may, for the functions that decode them
  in the statements of this model that follow: whether it has.

  Arguments:
      payloads: a relation with topic, key, value, headers and format.
      format: the SQL that format is made of.
#}
{% macro know_schemas_of(payloads, format) %}
    {% if not dbt.is_decoding() or "_avro'" not in format %}
        {% do return(false) %}
    {% endif %}
    {% do adapter.know_schemas("
        select explode(
            array(key, value) || if(" ~ dbt._names_other_key() ~ ", headers.value, array())
        )
            as text
        from " ~ payloads ~ "
        where format in ('debezium_avro', 'debezium_unwrapped_avro')
    ") %}
    {% do return(true) %}
{% endmacro %}

{# Whether what is compiled is run, and not of a unit test, whose payloads no other query finds. #}
{% macro is_decoding() %}
    {% set is_unit_test = model is defined and model.resource_type == 'unit_test' %}
    {% do return(
        execute
        and flags.WHICH not in ['compile', 'generate', 'list', 'parse']
        and not is_unit_test
    ) %}
{% endmacro %}

{#
  What `decode_payload` takes of a payload. Headers go to Python only where they may be read: of
  unwrapped rows, and of the two messages of a key update. All others would cost more than they say.
  They are empty and not null: Spark asks for a batch's size at each row of it, and Arrow's lists go
  over all nulls behind their last value for that (five CPU seconds for 300,000 rows).

  Arguments:
      format: SQL for the wire format of a payload.
#}
{% macro _message_of(format) -%}
    format, key, value
    {%- if "'debezium_" in format -%}
        , if(
            headers is not null and (
                format like 'debezium_unwrapped_%'
                or (format like 'debezium_%' and {{ dbt._names_other_key() }})
            ),
            headers,
            array()
        )
    {%- endif -%}
{%- endmacro %}

{# Whether a payload's headers name the other key of a key update. #}
{% macro _names_other_key() -%}
    coalesce(
        array_contains(headers.key, '__debezium.oldkey')
        or array_contains(headers.key, '__debezium.newkey'),
        false
    )
{%- endmacro %}
