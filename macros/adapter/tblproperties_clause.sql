{#
  The table properties of a new table: the model's own, and what the adapter keeps there of its
  declaration, so that a rebuilt table has it from its first commit on.
#}
{% macro lakehouse__tblproperties_clause() -%}
    {%- set properties = dict(config.get('tblproperties') or {}, **adapter.run_properties(this)) -%}
    {%- if properties %}
    tblproperties (
        {%- for name, value in properties.items() %}
        {{ dbt.sql_text(name) }} = {{ dbt.sql_text(value) }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
    {%- endif -%}
{%- endmacro %}
