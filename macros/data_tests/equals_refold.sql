{#
  A gold table equals the fold of its change log by the plain Python reference in
  dbt_lakehouse/reference/fold.py: the same keys are live, with the same values, positions and
  times.
#}
{% test equals_refold(model) %}
{{- config(tags=['nightly']) -}}
{{- dbt.sql_of_test('equals_refold', model) if execute -}}
{% endtest %}
