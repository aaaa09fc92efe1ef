{#
  None of the columns is ever null: dbt's `not_null` for several columns in one scan.

  Arguments:
      columns: the columns that must have a value in each row.
#}
{% test not_null_columns(model, columns) %}
{{- config(tags=['nightly']) -}}
{{- dbt.sql_of_test('not_null_columns', model, {'columns': columns}) if execute -}}
{% endtest %}
