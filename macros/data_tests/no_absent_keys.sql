{#
  No row of a gold table has expired by the time that it was built for, and no row has a key that a
  later event made absent.
#}
{% test no_absent_keys(model) %}
{{- config(tags=['nightly']) -}}
{{- dbt.sql_of_test('no_absent_keys', model) if execute -}}
{% endtest %}
