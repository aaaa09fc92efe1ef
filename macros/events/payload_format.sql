{#
  SQL for the wire format of a topic, from `vars.topics` (first match wins),
  or null where none matches.

  Arguments:
      topic: a SQL expression.
#}
{% macro payload_format(topic) -%}
    case
    {%- for entry in var('topics') %}
        {%- if entry.topic is defined %}
        when {{ topic }} in (
            {{ sql_text(entry.topic) }}, {{ sql_text(entry.land_as or entry.topic) }}
        ) then {{ sql_text(entry.format) }}
        {%- else %}
        when {{ topic }} rlike {{ sql_text('^(?:' ~ entry.pattern ~ ')$') }}
            then {{ sql_text(entry.format) }}
        {%- endif %}
    {%- endfor %}
        else cast(null as string)
    end
{%- endmacro %}

{#
  The same for topics of which it is known, by their names: to hold each payload's topic against all
  patterns takes time.

  Arguments:
      partitions: as of partitions_of.
#}
{% macro _known_format(partitions) -%}
    {%- set topics = {} -%}
    {%- for each in partitions if each.format is not none -%}
        {%- do topics.setdefault(each.format, {}).update({each.topic: sql_text(each.topic)}) -%}
    {%- endfor -%}
    {%- if topics %}
    case
    {%- for format, names in topics.items() %}
        when topic in ({{ names.values() | join(', ') }}) then {{ sql_text(format) }}
    {%- endfor %}
    end
    {%- else %}
    cast(null as string)
    {%- endif %}
{%- endmacro %}
