{#
  None of the columns is ever null: dbt's `not_null` for several columns in one scan.

  Arguments:
      columns: the columns that must have a value in each row.
#}
{% test not_null_columns(model, columns) %}
{{- config(tags=['nightly']) -}}
{%- if execute -%}
select {{ dbt.quoted(columns) | join(', ') }}
from {{ dbt.added_rows(model) }}
where
    {% for column in dbt.quoted(columns) %}
    {{ column }} is null{{ ' or ' if not loop.last }}
    {% endfor %}
{%- endif -%}
{% endtest %}
