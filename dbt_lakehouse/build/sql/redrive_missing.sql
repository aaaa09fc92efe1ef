{#
  The events of the payloads that are in no table yet, or have another error now.

  Arguments:
      events: other_events as it is to be read.
      logs: the existing change logs.
#}
select redrive_events.*, 'redrive' as added_by
from redrive_events
left anti join {{ events }} as already
    on {{ parts.is_same_event('already', 'redrive_events') }}
    and (
        already.operation <> 'invalid'
        or {{ redrive_parts.same_error('already', 'redrive_events') }}
    )
-- What was good before stands in change logs.
{% for log in logs %}
left anti join {{ log }} as log_{{ loop.index }}
    on {{ parts.is_same_event('log_' ~ loop.index ~ '._position', 'redrive_events') }}
{% endfor %}
