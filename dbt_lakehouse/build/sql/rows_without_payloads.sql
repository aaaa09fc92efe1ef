{# Whether a change log has rows whose payloads are no longer there: one of them. #}
select 1
from {{ log }} as log
left anti join {{ payloads }} as payloads
    on log._position.topic = payloads.topic
    and log._position.partition = payloads.partition
    and log._position.offset = payloads.offset
limit 1
