{#
  No two rows agree in all of the columns; nulls are equal here, for a key with a null would be
  applied twice by a merge.

  Arguments:
      columns: the columns that together identify a row.
#}
{% test unique_combination(model, columns) %}
select {{ quoted(columns) | join(', ') }}, count(*) as copies
from {{ model }}
group by {{ quoted(columns) | join(', ') }}
having count(*) > 1
{% endtest %}
