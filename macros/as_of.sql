{#
  The moment at which rows are judged to be expired, as a SQL timestamp: `vars.as_of`, or the start of the run; one
  value for all models and tests of a run.
#}
{% macro as_of() -%}
    timestamp '{{ as_of_text() }}'
{%- endmacro %}

{# The same as text, in UTC and of one form, so that texts compare as the moments do. #}
{% macro as_of_text() -%}
    {%- set given = var('as_of', none) -%}
    {%- set moment = run_started_at -%}
    {%- if given is not none -%}
        {%- set form = '[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?' -%}
        {%- if not modules.re.fullmatch(form, given | string) -%}
            {%- do exceptions.raise_compiler_error(
                "vars.as_of is '" ~ given ~ "': use a date, or a time like 2026-11-21 10:00:00, in UTC unless it ends in a zone"
            ) -%}
        {%- endif -%}
        {%- set moment = modules.datetime.datetime.fromisoformat(given | string) -%}
        {%- if moment.tzinfo -%}
            {%- set moment = moment.astimezone(modules.pytz.utc) -%}
        {%- endif -%}
    {%- endif -%}
    {{ moment.strftime('%Y-%m-%d %H:%M:%S.%f') }}
{%- endmacro %}
