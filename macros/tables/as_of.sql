{#
  The moment at which rows are judged to be expired, as a SQL timestamp: `vars.as_of`, or the start
  of the run; one value for all models and tests of a run.
#}
{% macro as_of() -%}
    timestamp '{{ as_of_text() }}'
{%- endmacro %}

{# The same as text, in UTC and of one form, so that texts compare as the moments do. #}
{% macro as_of_text() -%}
    {%- set given = var('as_of', none) -%}
    {%- set moment = run_started_at -%}
    {%- if given is not none -%}
        {%- set moment = modules.datetime.datetime.fromisoformat(given | string) -%}
        {%- if moment.tzinfo -%}
            {%- set moment = moment.astimezone(modules.pytz.utc) -%}
        {%- endif -%}
    {%- endif -%}
    {{ moment.strftime('%Y-%m-%d %H:%M:%S.%f') }}
{%- endmacro %}
