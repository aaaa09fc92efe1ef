{#
  Add the present errors of the payloads. The next run of the model would find the same events among
  the appended ones, so the same commit records that they have been read.

  Arguments:
      quarantine: the table.
#}
insert into {{ quarantine }} (
    topic, partition, offset, event_index, timestamp, format, error_code, error_detail, key, value
)
select
    event.topic,
    event.partition,
    event.offset,
    event.event_index,
    event.timestamp,
    event.format,
    event.error_code,
    event.error_detail,
    payload.key,
    payload.value
from redrive_events as event
inner join redrive_payloads as payload
    on
        event.topic = payload.topic
        and event.partition = payload.partition
        and event.offset = payload.offset
where
    event.operation = 'invalid'
    and not exists (
        select 1 from {{ quarantine }} as already
        where {{ parts.is_same_event('already', 'event') }}
    )
