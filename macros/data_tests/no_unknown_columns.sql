{#
  The events of a typed change log carry no field that the log does not declare: a column that is
  new at the source fails this test, one row for each, with the types of its values (as Spark's
  VARIANT tells them) and the position of its first event. Nothing of it is lost: it is in
  bronze, and `lakehouse generate --topic ...` adds it to the models.

  It reads the images of the table's events, and takes apart only those that have such a field.
  Where a column has the whole image nothing is unknown.
#}
{% test no_unknown_columns(model) %}
{{- config(severity='warn', tags=['nightly']) -}}
{{- dbt.sql_of_test('no_unknown_columns', model) if execute -}}
{% endtest %}
