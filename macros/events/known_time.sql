{#
  The time of an event as far as it can be trusted.

  Arguments:
      occurred_at, kafka_timestamp: SQL expressions.
#}
{% macro known_time(occurred_at, kafka_timestamp) -%}
    {{ adapter.part('parts', 'known_time', occurred_at, kafka_timestamp) }}
{%- endmacro %}
