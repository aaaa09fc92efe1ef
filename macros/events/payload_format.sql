{#
  SQL for the wire format of a payload, from `vars.topics` (first match wins), or null where none
  matches. It asks for the payload's topic, and for key, value and headers if an entry has a `when`.

  Arguments:
      by_topic: whether to ask for the topic alone. One whose first entry has a `when` then gets an
          empty text.
#}
{% macro payload_format(by_topic=false) -%}
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
        {%- if entry.when is defined and not by_topic %}
            and {{ dbt._is_meant(entry.when) }}
        {%- endif %}
            then {{ dbt.sql_text('' if entry.when is defined and by_topic else entry.format) }}
    {%- endfor %}
        else cast(null as string)
    end
{%- endmacro %}

{# Whether a payload is what the `when` of an entry asks for (dbt_lakehouse/config/topics.py). #}
{% macro _is_meant(when) -%}
    {%- if when.first_byte is defined -%}
        substring(coalesce(value, key), 1, 1) = X'{{ '%02X' | format(when.first_byte) }}'
    {%- else -%}
        exists(
            headers,
            header -> header.key = {{ dbt.sql_text(when.header) }}
                and header.value = cast({{ dbt.sql_text(when['is']) }} as binary)
        )
    {%- endif -%}
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
        {%- do topics.setdefault(each.format, {}).update({each.topic: dbt.sql_text(each.topic)}) -%}
    {%- endfor -%}
    {%- if topics %}
    case
    {%- for format, names in topics.items() %}
        when topic in ({{ names.values() | join(', ') }})
            then {{ dbt.sql_text(format) if format else dbt.payload_format() }}
    {%- endfor %}
    end
    {%- else %}
    cast(null as string)
    {%- endif %}
{%- endmacro %}
