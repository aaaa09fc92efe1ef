{#
  The table properties of a new table: the model's own, and what the adapter keeps there of its
  declaration, so that a rebuilt table has it from its first commit on.
#}
{% macro lakehouse__tblproperties_clause() -%}
    {{ adapter.properties_clause(this, config.get('tblproperties')) }}
{%- endmacro %}
