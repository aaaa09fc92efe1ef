{#
  Delete the rows of the payloads whose error has changed or is gone.

  Arguments:
      relation: the table.
      only_invalid: whether it has other rows too.
#}
delete from {{ relation }} as target
where
    {{ "target.operation = 'invalid'" if only_invalid else 'true' }}
    and exists (
        select 1 from redrive_payloads as payload
        where
            target.topic = payload.topic
            and target.partition = payload.partition
            and target.offset = payload.offset
    )
    and not exists (
        select 1 from redrive_events as event
        where
            {{ parts.is_same_event('target', 'event') }}
            and {{ redrive_parts.same_error('target', 'event') }}
    )
