{#
  SQL for the wire format of a topic, from `vars.topics` (first match wins), or null where none matches.

  Arguments:
      topic: a SQL expression.
#}
{% macro payload_format(topic) -%}
    case
    {%- for entry in var('topics') %}
        {%- if entry.topic is defined %}
        when {{ topic }} in ({{ sql_text(entry.topic) }}, {{ sql_text(entry.land_as or entry.topic) }}) then {{ sql_text(entry.format) }}
        {%- else %}
        when {{ topic }} rlike {{ sql_text('^(?:' ~ entry.pattern ~ ')$') }} then {{ sql_text(entry.format) }}
        {%- endif %}
    {%- endfor %}
        else cast(null as string)
    end
{%- endmacro %}
