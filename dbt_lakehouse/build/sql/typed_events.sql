{#
  Events with their rows (`change`).

  Arguments:
      events: a relation with the columns of other_events.
      function: the log's own function, which knows its columns; python_udfs/typed documents a
          column's value.
      record_key: the function's argument for a record key.
#}
-- The function is evaluated once for each row.
select
    *,
    {{ function }}(
        operation,
        before,
        after,
        {{ record_key }},
        metadata
    ) as change
from {{ events }}
