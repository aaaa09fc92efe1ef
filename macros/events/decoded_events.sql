{#
  The events of payloads as today's decoders and `vars.topics` read them, to select from: topic,
  partition, offset, timestamp, format, and what `decode_payload` says of each event.

  Arguments:
      payloads: a relation with topic, partition, offset, timestamp, key, value and headers.
      partitions: as of partitions_of, of these payloads; without, each payload's topic is held
          against the patterns.
#}
{% macro decoded_events(payloads, partitions=none) -%}
    {%- set format = dbt._known_format(partitions) if partitions else dbt.payload_format() -%}
    {%- if partitions and "_avro'" in format -%}
        {%- do dbt.know_schemas(payloads, format) -%}
    {%- endif -%}
    (
        select
            payloads.topic,
            payloads.partition,
            payloads.offset,
            payloads.timestamp,
            payloads.format,
            event.*
        from (select *, {{ format | indent(8) }} as format from {{ payloads }}) as payloads
            lateral view inline(decode_payload({{ dbt._message_of(format) }})) event as
            event_index,
            operation,
            source_database,
            source_schema,
            source_table,
            record_key,
            before,
            after,
            occurred_at,
            expires_at,
            metadata,
            error_code,
            error_detail
    )
{%- endmacro %}

{#
  Finds the schemas of a registry that payloads name, for the `decode_payload` of the statements of
  this model that follow.

  Arguments:
      payloads: a relation with topic, key, value and headers.
      format: SQL for the wire format of a payload.
#}
{% macro know_schemas(payloads, format) %}
    {% do adapter.know_schemas("
        select explode(
            array(key, value) || if(" ~ dbt._names_other_key() ~ ", headers.value, array())
        )
            as text
        from (select *, " ~ format ~ " as format from " ~ payloads ~ ")
        where format in ('debezium_avro', 'debezium_unwrapped_avro')
    ") %}
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
