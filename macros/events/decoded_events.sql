{#
  The events of payloads as today's decoders and `vars.topics` read them, to select from: topic,
  partition, offset, timestamp, format, and what `decode_payload` says of each event.

  Arguments:
      payloads: a relation with topic, partition, offset, timestamp, key and value.
      partitions: as of partitions_of, of these payloads; without, each payload's topic is held
          against the patterns.
#}
{% macro decoded_events(payloads, partitions=none) -%}
    {%- set format = _known_format(partitions) if partitions else payload_format('topic') -%}
    (
        select
            payloads.topic,
            payloads.partition,
            payloads.offset,
            payloads.timestamp,
            payloads.format,
            event.*
        from (select *, {{ format | indent(8) }} as format from {{ payloads }}) as payloads
            lateral view inline(decode_payload(format, key, value)) event as
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
