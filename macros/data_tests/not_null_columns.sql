{#
  None of the columns is ever null: dbt's `not_null` for several columns in one scan.

  Arguments:
      columns: the columns that must have a value in each row.
#}
{% test not_null_columns(model, columns) %}
{{- config(tags=['nightly']) -}}
select {{ quoted(columns) | join(', ') }}
from {{ added_rows(model) }}
where
    {% for column in quoted(columns) %}
    {{ column }} is null{{ ' or ' if not loop.last }}
    {% endfor %}
{% endtest %}
