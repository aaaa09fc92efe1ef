{#
  Events with their rows (`change`), from their texts.

  Arguments:
      events: a relation with the columns of other_events.
      function: the log's own function, which knows its columns; python_udfs/typed documents a
          column's value.
      record_key: the function's argument for a record key.
      has_headers: whether the function also takes the headers of the events' messages.
#}
-- The function is evaluated once for each row.
select
    *,
    {{ function }}(
        operation,
        before,
        after,
        {{ record_key }},
        metadata{{ ', _lh_headers' if has_headers }}
    ) as change
from {{ events }}
