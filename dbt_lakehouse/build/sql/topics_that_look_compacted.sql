{#
  The topics of tombstones behind a missing offset whose key has a row as its newest event, with the
  number of these tombstones and the position of the first.

  Arguments:
      added: the rows of other_events to examine.
      payloads: the payloads that other_events has read.
      earlier: all events of the topics of tombstones.
#}
select
    topic,
    count(*) as tombstones,
    min_by(partition, struct(partition, offset)) as partition,
    min_by(offset, struct(partition, offset)) as offset
from (
    with tombstones as (
        select
            topic,
            partition,
            offset,
            {{ tombstone_parts.message_key() | indent(12) }} as message_key,
            {{ payload_parts.event_position('added') | indent(12) }} as position
        from {{ added }} as added
        left anti join (
            select topic, partition, offset + 1 as offset
            from {{ payloads }}
        ) using (topic, partition, offset)
        where operation = 'tombstone' and record_key is not null
    ),

    earlier as (
        select
            topic,
            operation,
            {{ tombstone_parts.message_key() | indent(12) }} as message_key,
            {{ payload_parts.event_position('earlier') | indent(12) }} as position
        from {{ earlier }} as earlier
        where
            operation in ({{ operations_of_rows }}, 'tombstone')
    )

    select
        tombstones.topic,
        tombstones.partition,
        tombstones.offset
    from tombstones
    inner join earlier
        on
            tombstones.topic = earlier.topic
            and tombstones.message_key = earlier.message_key
            and tombstones.position > earlier.position
    group by tombstones.topic, tombstones.partition, tombstones.offset
    having max_by(earlier.operation, earlier.position) not in ('delete', 'tombstone')
)
group by topic
