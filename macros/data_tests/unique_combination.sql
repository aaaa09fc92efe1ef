{#
  No two rows agree in all of the columns; nulls are equal here, for a key with a null would be
  applied twice by a merge.

  Arguments:
      columns: the columns that together identify a row.
#}
{% test unique_combination(model, columns) %}
{{- config(tags=['nightly']) -}}
{{- dbt.sql_of_test('unique_combination', model, {'columns': columns}) if execute -}}
{% endtest %}
