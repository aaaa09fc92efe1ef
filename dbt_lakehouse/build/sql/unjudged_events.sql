{#
  The topics whose tombstones are to be judged, each with the least log time of its events in
  microseconds, null if one of them has none.

  Arguments:
      payloads: the payloads of bronze that have not been judged.
      log_times: the table of log times that are not their payload's own timestamp, or none.
      events: the rows of other_events that have not been judged.
#}
select
    topic,
    if(bool_or(log_time is null), null, unix_micros(min(log_time))) as first_log_time
from (
    {% if log_times is none %}
    select topic, timestamp as log_time from {{ payloads }} as payloads
    {% else %}
    select topic, coalesce(log_times.log_time, payloads.timestamp) as log_time
    from {{ payloads }} as payloads
    left join {{ log_times }} as log_times using (topic, partition, offset)
    {% endif %}
    union all
    select topic, log_time from {{ events }} where added_by = 'redrive'
)
group by topic
