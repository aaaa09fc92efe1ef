{#
  What a row of `silver.deleted_keys` speaks of: one gold table, or one Aerospike namespace.
#}
{% macro table_scope(relation) -%}
    {{ sql_text(relation.schema ~ '.' ~ relation.identifier) }}
{%- endmacro %}

{# Arguments: namespace: a SQL expression. #}
{% macro namespace_scope(namespace) -%}
    concat('aerospike:', {{ namespace }})
{%- endmacro %}

{#
  The record key of a row in the form of change_events: compact JSON, names sorted. A technical column's underscore is
  not part of the name: `_digest` is {"digest":...}.

  Arguments:
      key: the key columns of the row.
#}
{% macro record_key(key) -%}
    to_json(named_struct(
        {%- for column in key | sort %}
        '{{ column.lstrip("_") }}', {{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    ))
{%- endmacro %}
