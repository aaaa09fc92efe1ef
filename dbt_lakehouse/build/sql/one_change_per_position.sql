{#
  The positions of a change log with a duplicate change, or with an operation that its source does
  not have.

  Arguments:
      table: the log.
      near: a condition that all rows at the examined positions meet, or none for all.
      operations: the allowed operations.
#}
select _position, count(*) as copies, collect_set(_operation) as operations
from {{ table }}
{% if near %}
where
    {{ near | indent }}
{% endif %}
group by _position
having
    _position is null
    or count(*) > 1
    or count_if(_operation in ({{ operations | map('literal') | join(', ') }})) < count(*)
