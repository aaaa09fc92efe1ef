{# Each row of a gold table has its whole key, and no two rows have the same key. #}
{% test unique_key(model) %}
{{- config(tags=['nightly']) -}}
{{- dbt.sql_of_test('unique_key', model) if execute -}}
{% endtest %}
