{#
  No two rows are equal in all of the columns. Nulls are equal here, because a merge would apply a
  key with a null twice.

  Arguments:
      columns: the columns that together identify a row.
#}
{% test unique_combination(model, columns) %}
{{- config(tags=['nightly']) -}}
{{- dbt.sql_of_test('unique_combination', model, {'columns': columns}) if execute -}}
{% endtest %}
