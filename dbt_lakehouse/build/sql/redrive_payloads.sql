{#
  The payloads to decode again, with the log time of their position.

  Arguments:
      payloads, events, quarantine: the tables as they are to be read.
      codes, topics: only payloads with one of these error codes, of these topics; none takes all.
#}
select
    payloads.topic,
    payloads.partition,
    payloads.offset,
    payloads.timestamp,
    positions.log_time,
    payloads.key,
    payloads.value,
    payloads.headers
from {{ payloads }} as payloads
inner join (
    select events.topic, events.partition, events.offset, max(events.log_time) as log_time
    from {{ events }} as events
    left semi join (
        select topic, partition, offset
        from {{ quarantine }}
        -- What is wrong with a tombstone of a compacted topic, its bytes don't say.
        left anti join (
            select topic, partition, offset, event_index
            from {{ events }}
            where operation = 'invalid' and metadata = '{"compacted":true}'
        ) using (topic, partition, offset, event_index)
        where
            {{ redrive_parts.is_one_of('error_code', codes) }}
            and {{ redrive_parts.is_one_of('topic', topics) }}
    ) using (topic, partition, offset)
    group by events.topic, events.partition, events.offset
) as positions using (topic, partition, offset)
