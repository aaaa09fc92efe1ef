{#
  The time of an event as far as it can be trusted: a source time of more than 24 hours after the
  Kafka timestamp comes from a wrong clock and counts as unknown, so that it can't shut out all
  later events of its key.

  Arguments:
      occurred_at, kafka_timestamp: SQL expressions.
#}
{% macro known_time(occurred_at, kafka_timestamp) -%}
    {{ adapter.part('parts', 'known_time', occurred_at, kafka_timestamp) }}
{%- endmacro %}
