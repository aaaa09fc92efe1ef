{# One row of a change log whose payload no longer exists, if there is any. #}
select 1
from {{ log }} as log
left anti join {{ payloads }} as payloads
    on log._position.topic = payloads.topic
    and log._position.partition = payloads.partition
    and log._position.offset = payloads.offset
limit 1
