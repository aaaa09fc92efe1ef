{#
  The values of some columns that more than one row has. Nulls are equal: a key with a null would be
  applied twice by a merge.

  Arguments:
      table: the table.
      near: a condition that all rows at the examined positions meet, or none for all.
      columns: the columns, quoted.
#}
select {{ columns | join(', ') }}, count(*) as copies
from {{ table }}
{% if near %}
where
    {{ near | indent }}
{% endif %}
group by {{ columns | join(', ') }}
having count(*) > 1
