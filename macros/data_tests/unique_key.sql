{# Each row of a gold table has its whole key, and no two have the same. #}
{% test unique_key(model) %}
{{- config(tags=['nightly']) -}}
{%- if execute -%}
{{ adapter.test_sql('unique_key', model, dbt.as_of_text()) }}
{%- endif -%}
{% endtest %}
