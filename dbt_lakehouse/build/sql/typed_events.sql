{#
  Events with their rows (`change`).

  Arguments:
      events: a relation with the columns of other_events.
      function: one of the log's own, which knows its columns: python_udfs/typed, where it is said
          what a column's value is.
      record_key: what the function takes for a record key.
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
