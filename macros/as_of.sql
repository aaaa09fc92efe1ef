{#
  The moment at which rows are judged to be expired, as a SQL timestamp: `vars.as_of`, or the start of the run; one
  value for all models and tests of a run.
#}
{% macro as_of() -%}
    timestamp '{{ as_of_text() }}'
{%- endmacro %}

{% macro as_of_text() -%}
    {{ var('as_of', none) or run_started_at.strftime('%Y-%m-%d %H:%M:%S.%f') }}
{%- endmacro %}
