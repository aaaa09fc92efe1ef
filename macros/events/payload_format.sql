{#
  SQL for the wire format of a payload, from `vars.topics` (first match wins), or null where none
  matches. It asks for the payload's topic, and for key, value and headers if an entry has a `when`.
  Of topics that are known, `adapter.format_of` tells it in less time.
#}
{% macro payload_format() -%}
    {% if not var('topics') -%}
    cast(null as string)
    {%- else -%}
    case
    {%- for entry in var('topics') %}
        when
        {%- if entry.topic is defined %}
            topic in (
                {{ dbt.sql_text(entry.topic) }}, {{ dbt.sql_text(entry.land_as or entry.topic) }}
            )
        {%- else %}
            topic rlike {{ dbt.sql_text('^(?:' ~ entry.pattern ~ ')$') }}
        {%- endif %}
        {%- if entry.when is defined %}
            and {{ adapter.is_meant(entry) }}
        {%- endif %}
            then {{ dbt.sql_text(entry.format) }}
    {%- endfor %}
        else cast(null as string)
    end
    {%- endif %}
{%- endmacro %}
