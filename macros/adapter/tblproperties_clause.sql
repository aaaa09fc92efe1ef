{#
  The table properties of a new table: the model's own, and those in which the adapter stores its
  declaration, so that a rebuilt table has them from its first commit on.
#}
{% macro lakehouse__tblproperties_clause() -%}
    {{ adapter.properties_clause(this, config.get('tblproperties')) }}
{%- endmacro %}
