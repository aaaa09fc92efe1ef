{#
  The place of an event in the log order, as a struct; structs compare field by field.

  Arguments:
      relation: the alias of a relation with the columns of other_events.
#}
{% macro event_position(relation) -%}
    named_struct(
        'log_time', {{ relation }}.log_time,
        'topic', {{ relation }}.topic,
        'partition', {{ relation }}.partition,
        'offset', {{ relation }}.offset,
        'event_index', {{ relation }}.event_index
    )
{%- endmacro %}
