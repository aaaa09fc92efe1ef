{#
  No two rows agree in all of the columns; nulls are equal here, for a key with a null would be
  applied twice by a merge.

  Arguments:
      columns: the columns that together identify a row.
#}
{% test unique_combination(model, columns) %}
{{- config(tags=['nightly']) -}}
{%- if execute -%}
{%- set added = adapter.added_rows(model) if 'offset' in columns -%}
select {{ dbt.quoted(columns) | join(', ') }}, count(*) as copies
from {{ model }}
{%- if added %}
where {{ dbt.is_near_positions(added) }}
{%- endif %}
group by {{ dbt.quoted(columns) | join(', ') }}
having count(*) > 1
{%- endif -%}
{% endtest %}
