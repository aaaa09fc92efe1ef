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
    {{ adapter.part('parts', 'record_key', key) }}
{%- endmacro %}
