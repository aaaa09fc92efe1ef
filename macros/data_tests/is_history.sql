{#
  A history has the versions that the plain Python reference in dbt_lakehouse/reference/history.py
  makes of the change log, each with the same time and values: so it has no overlap, and no gap but
  where the row was gone. And what is current is what the gold table holds.

  Arguments:
      current: the name of the gold table of the same change log.
#}
{% test is_history(model, current) %}
{{- config(tags=['nightly']) -}}
{%- set gold = ref(current) -%}
{{- dbt.sql_of_test('is_history', model, {'current': gold}) if execute -}}
{% endtest %}
