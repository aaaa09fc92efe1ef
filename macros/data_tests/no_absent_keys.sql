{#
  No row of a gold table has expired by the moment it was built for, and none belongs to a key that
  is remembered as absent since a later event.
#}
{% test no_absent_keys(model) %}
{{- config(tags=['nightly']) -}}
{{- dbt.sql_of_test('no_absent_keys', model) if execute -}}
{% endtest %}
