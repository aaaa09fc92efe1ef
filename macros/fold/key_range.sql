{#
  A condition that holds for all rows of the keys that a run touches: the range of the first key column. By it Iceberg
  passes over files, and parts of files, that have no such key. `true` for types that have no range.

  The range is in two variables of the session, so that the statement, which dbt logs, has no key in it. MERGE can't read
  variables: this is for queries.

  Arguments:
      key: the key columns, quoted.
      keys: a relation with them.
      name: begins the names of the variables.
#}
{% macro is_in_key_range(key, keys, name) %}
    {% set type = run_query('select typeof(min(' ~ key[0] ~ ')) from ' ~ keys)[0][0] %}
    {% if type.partition('(')[0] not in ['tinyint', 'smallint', 'int', 'bigint', 'decimal', 'string', 'date', 'timestamp'] %}
        {% do return('true') %}
    {% endif %}
    {% set low, high = name ~ 'low', name ~ 'high' %}
    {% do run_query('declare or replace variable ' ~ low ~ ' ' ~ type) %}
    {% do run_query('declare or replace variable ' ~ high ~ ' ' ~ type) %}
    {% do run_query(
        'set var (' ~ low ~ ', ' ~ high ~ ') = (select min(' ~ key[0] ~ '), max(' ~ key[0] ~ ') from ' ~ keys ~ ')'
    ) %}
    {% do return(key[0] ~ ' between ' ~ low ~ ' and ' ~ high) %}
{% endmacro %}
