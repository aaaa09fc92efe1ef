{#
  A change log has each change once, and only operations that change rows in its source.

  Arguments:
      operations: those that there can be; by default, what the log's declaration says of its
          source.
#}
{% test one_change_per_position(model, operations=none) %}
{{- config(tags=['nightly']) -}}
{{- dbt.sql_of_test('one_change_per_position', model, {'operations': operations}) if execute -}}
{% endtest %}
