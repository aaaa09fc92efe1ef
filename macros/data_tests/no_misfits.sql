{#
  Every value of a typed change log fits its declared type, so no value became null. Every change
  except a truncate has its key, without which it is missing in gold. The test warns: a bad value or
  a row without a key is reported, and must not keep good rows from gold.
#}
{% test no_misfits(model) %}
{{- config(severity='warn', tags=['nightly']) -}}
{{- dbt.sql_of_test('no_misfits', model) if execute -}}
{% endtest %}
