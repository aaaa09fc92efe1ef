{% import 'reference.sql' as reference %}
{#
  The keys of a gold table that it has more than once, or not whole.

  Arguments:
      key: the key columns.
      gold: the gold table.
      keys: SQL of the keys to look at, or none for all.
#}
select {{ key | join(', ') }}, count(*) as copies
from {{ reference.rows_of_keys(gold, keys, key) }}
group by {{ key | join(', ') }}
having
    count(*) > 1
    {% for column in key %}
    or {{ column }} is null
    {% endfor %}
