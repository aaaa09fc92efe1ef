{#
  The table properties of a new table: the model's own, and for our incremental tables the table's
  identity and what it has read (see macros/incremental/watermarks.sql), so that a rebuilt table and
  its watermarks are one commit.
#}
{% macro lakehouse__tblproperties_clause() -%}
    {%- set properties = dict(config.get('tblproperties') or {}) -%}
    {%- if config.get('materialized') == 'incremental' -%}
        {%- do properties.update({'lakehouse.table_id': invocation_id}) -%}
        {%- do properties.update(_noted_properties()) -%}
        {%- if declaration() -%}
            {%- do properties.update({'lakehouse.declared': declaration()}) -%}
        {%- endif -%}
    {%- endif -%}
    {%- if properties %}
    tblproperties (
        {%- for name, value in properties.items() %}
        {{ sql_text(name) }} = {{ sql_text(value) }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
    {%- endif -%}
{%- endmacro %}
