{# The log times of earlier payloads, from the step of that name in log_time_corrections. #}
select
    topic,
    partition,
    offset,
    max(log_time) as given_log_time
from earlier_events
group by topic, partition, offset
