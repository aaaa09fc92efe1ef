{#
  A change log has each change once, and only operations that change rows in its source.

  Arguments:
      operations: the allowed operations; by default, those of the log's declaration.
#}
{% test one_change_per_position(model, operations=none) %}
{{- config(tags=['nightly']) -}}
{{- dbt.sql_of_test('one_change_per_position', model, {'operations': operations}) if execute -}}
{% endtest %}
