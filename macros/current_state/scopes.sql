{#
  What a row of `silver.deleted_keys` speaks of: one key of a gold table, all keys of one, or an
  Aerospike namespace's.
#}
{% macro table_scope(relation) -%}
    {{ dbt.sql_text(relation.schema ~ '.' ~ relation.identifier) }}
{%- endmacro %}

{# Of the newest truncate of a gold table. #}
{% macro truncate_scope(relation) -%}
    {{ dbt.sql_text('truncated:' ~ relation.schema ~ '.' ~ relation.identifier) }}
{%- endmacro %}

{# Arguments: namespace: a SQL expression. #}
{% macro namespace_scope(namespace) -%}
    concat('aerospike:', {{ namespace }})
{%- endmacro %}

{#
  The record key of a row in the form of other_events: compact JSON, names sorted. A technical
  column's underscore is not part of the name: `_digest` is {"digest":...}.

  Arguments:
      key: the key columns of the row, quoted or not.
#}
{% macro record_key(key) -%}
    {%- set fields = [] -%}
    {%- for column in key | sort(case_sensitive=true) -%}
        {%- do fields.append(dbt.sql_text(column.strip("`").lstrip("_")) ~ ', ' ~ column) -%}
    {%- endfor -%}
    {{ dbt.exact_json('named_struct(' ~ fields | join(', ') ~ ')') }}
{%- endmacro %}
