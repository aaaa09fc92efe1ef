{#
  The events of a typed change log carry no field that the log does not declare. A new column at the
  source fails this test, one row for each, with the types of its values (as Spark's VARIANT reports
  them) and the position of its first event. Its values are not lost: they are in bronze, and
  `lakehouse generate --topic ...` adds the column to the models.

  The test reads the images of the table's events, and parses only those with such a field. If a
  column has the whole image, no field is unknown.
#}
{% test no_unknown_columns(model) %}
{{- config(severity='warn', tags=['nightly']) -}}
{{- dbt.sql_of_test('no_unknown_columns', model) if execute -}}
{% endtest %}
