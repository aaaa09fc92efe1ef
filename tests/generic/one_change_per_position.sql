{#
  A change log has each change once, and only operations that change rows.

  Arguments:
      operations: what `_operation` can be.
#}
{% test one_change_per_position(model, operations) %}
select _position, count(*) as copies, collect_set(_operation) as operations
from {{ model }}
group by _position
having
    _position is null
    or count(*) > 1
    or count_if(_operation in ('{{ operations | join("', '") }}')) < count(*)
{% endtest %}
