{#
  The schema of a model: its configured one unchanged (`silver`, `gold`) in a target whose schema is
  `gold`, such as the default target. In any other target it is prefixed with the target's schema,
  so that a developer's build never touches the shared tables.
#}
{% macro lakehouse__generate_schema_name(custom_schema_name, node) -%}
    {%- if custom_schema_name is none -%}
        {{ target.schema }}
    {%- elif target.schema == 'gold' -%}
        {{ custom_schema_name | trim }}
    {%- else -%}
        {{ target.schema }}_{{ custom_schema_name | trim }}
    {%- endif -%}
{%- endmacro %}
