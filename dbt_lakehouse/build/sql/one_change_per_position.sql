{#
  The positions of a change log with a change that is there twice, or of an operation that its
  source does not make.

  Arguments:
      table: the log.
      near: a condition that all rows with the position of one to look at meet, or none for all.
      operations: those that there can be.
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
