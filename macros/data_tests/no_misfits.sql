{#
  Every value of a typed change log fits its declared type: none was turned into null. And every
  change but a truncate has its key, without which it is in no gold table. It warns: a bad value or
  a row without a key is reported, and must not keep good rows from gold.
#}
{% test no_misfits(model) %}
{{- config(severity='warn', tags=['nightly']) -}}
{{- dbt.sql_of_test('no_misfits', model) if execute -}}
{% endtest %}
