{#
  JSON text of a struct, in which different values differ: by itself, Spark's to_json cuts times to
  milliseconds. XXX is Java's pattern for an offset, Z for UTC.

  Arguments:
      struct: a SQL expression.
#}
{% macro exact_json(struct) -%}
    {{ adapter.part('parts', 'exact_json', struct) }}
{%- endmacro %}
