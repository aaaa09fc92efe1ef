{#
  No two rows agree in all of the columns; nulls are equal here, for a key with a null would be
  applied twice by a merge.

  Arguments:
      columns: the columns that together identify a row.
#}
{% test unique_combination(model, columns) %}
{{- config(tags=['nightly']) -}}
{%- set added = adapter.added_rows(model) if execute and 'offset' in columns -%}
select {{ quoted(columns) | join(', ') }}, count(*) as copies
from {{ model }}
{%- if added %}
where {{ is_near_positions(added) }}
{%- endif %}
group by {{ quoted(columns) | join(', ') }}
having count(*) > 1
{% endtest %}
