{#
  The events of a change log as their payloads say them, to select from: the columns of other_events
  without added_by.

  Arguments:
      run: the NodeRun.
      log: the declaration.
      part: which events, as dbt_lakehouse/runs/log_input.py calls them.
#}
{% macro events_of_log(run, log, part='new') -%}
    {{ adapter.events_of_log(run, log, part, var('topics', none), dbt.is_decoding()) }}
{%- endmacro %}
