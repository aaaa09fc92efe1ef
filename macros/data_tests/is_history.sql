{#
  A history has the versions that the plain Python reference in dbt_lakehouse/reference/history.py
  computes from the change log, each with the same time and values. So it has no overlaps, and no
  gaps except deletions. The current versions are the rows of the gold table.

  Arguments:
      current: the name of the gold table of the same change log.
#}
{% test is_history(model, current) %}
{{- config(tags=['nightly']) -}}
{%- set gold = ref(current) -%}
{{- dbt.sql_of_test('is_history', model, {'current': gold}) if execute -}}
{% endtest %}
