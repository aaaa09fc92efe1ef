{#
  Events as their payloads say them, to select from.

  Arguments:
      input: what is read, as adapter.log_input gives it.
      of_payloads, of_events: conditions that payloads meet, and that events meet.
#}
{% macro events_of(input, of_payloads, of_events) %}
    {% do return(adapter.events_of(
        input, of_payloads, of_events, var('topics', none), dbt.is_decoding()
    )) %}
{% endmacro %}

{# SQL for the wire format of a payload, from `vars.topics`. #}
{% macro payload_format() %}
    {% do return(adapter.payload_format(var('topics', none))) %}
{% endmacro %}

{#
  Finds the schemas of a registry that payloads name, if any may, for the functions that decode them
  in the statements of this model that follow: whether it has.

  Arguments:
      payloads: a relation with topic, key, value, headers and format.
      format: the SQL that format is made of.
#}
{% macro know_schemas_of(payloads, format) %}
    {% do return(adapter.know_schemas_of(payloads, format, dbt.is_decoding())) %}
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
  What a function says of the events of payloads, beside where they came from, to select from.

  Arguments:
      payloads: a relation with topic, partition, offset, timestamp, key, value, headers and format.
      format: the SQL that format is made of.
      function: its name.
      fields: the columns of what it says.
      more: further columns of the payloads.
#}
{% macro events_in(payloads, format, function, fields, more) %}
    {% do return(
        adapter.part('payloads', 'events_in', payloads, format, function, fields, more)
    ) %}
{% endmacro %}

{# The payloads that are read, with their formats and log times, to select from. #}
{% macro _payloads_to_read(input, format, conditions) %}
    {% do return(adapter.part('payloads', 'payloads_to_read', input, format, conditions)) %}
{% endmacro %}

{# Of the events of payloads those that are wanted, without what was decoded at another time. #}
{% macro _wanted(events, input, conditions) %}
    {% do return(adapter.part('payloads', 'wanted', events, input, conditions)) %}
{% endmacro %}

{# Events that no payload says by itself, to select from. #}
{% macro _added(input, conditions) %}
    {% do return(adapter.part('payloads', 'added', input, conditions)) %}
{% endmacro %}

{# Whether an event changes a row. #}
{% macro is_change() -%}
    operation in ('snapshot', 'insert', 'update', 'upsert', 'delete', 'truncate')
{%- endmacro %}
