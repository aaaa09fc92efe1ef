{#
  The range of keys that a run touches, for literals in conditions: by them Iceberg passes over files, and parts of files,
  that have no such key. Returns {low, high} as SQL, of the first key column; none where there is no key, or its type has
  no order that a text can say.

  Arguments:
      key: the key columns, quoted.
      keys: a relation with them.
#}
{% macro key_range(key, keys) %}
    {% set found = fromjson(run_query(
        'select to_json(struct(typeof(min(' ~ key[0] ~ ')) as type, cast(min(' ~ key[0] ~ ') as string) as low, cast(max('
        ~ key[0] ~ ') as string) as high)) from ' ~ keys
    )[0][0]) %}
    {% set type = found.type.partition('(')[0] %}
    {% if not found.low or type not in ['tinyint', 'smallint', 'int', 'bigint', 'decimal', 'string', 'date', 'timestamp'] %}
        {% do return(none) %}
    {% endif %}
    {% do return({
        'low': 'cast(' ~ sql_text(found.low) ~ ' as ' ~ found.type ~ ')',
        'high': 'cast(' ~ sql_text(found.high) ~ ' as ' ~ found.type ~ ')',
    }) %}
{% endmacro %}

{#
  A condition that holds for all rows of the touched keys.

  Arguments:
      key: as above.
      range: as key_range gives it.
      prefix: an alias with its point, or nothing.
#}
{% macro is_in_range(key, range, prefix='') -%}
    {{ prefix ~ key[0] ~ ' between ' ~ range.low ~ ' and ' ~ range.high if range else 'true' }}
{%- endmacro %}
