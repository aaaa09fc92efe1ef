{#
  The moment at which rows are judged to be expired, as a SQL timestamp: `vars.as_of`, or when the
  run has got the lake's lock; one value for all models and tests of a run
  (dbt_lakehouse/runs/moments.py).
#}
{% macro as_of() -%}
    timestamp '{{ adapter.moment(var('as_of', none)) }}'
{%- endmacro %}

{# The same as text, in UTC and of one form, so that texts compare as the moments do. #}
{% macro as_of_text() -%}
    {{ adapter.moment(var('as_of', none)) }}
{%- endmacro %}
