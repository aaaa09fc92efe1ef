{#
  The place of an event in the log order, as a struct; structs compare field by field.

  Arguments:
      relation: the alias of a relation with the columns of other_events.
#}
{% macro event_position(relation) -%}
    {{ adapter.part('payloads', 'event_position', relation) }}
{%- endmacro %}
