{#
  The partitions that have no earlier payload before the first new one.

  Arguments:
      earlier: a relation of earlier payloads.
      between: the topic, the partition and the first new offset of each, as SQL.
#}
select
    late.topic,
    late.partition
from (
    values {{ between | tuples('topic', 'partition', 'first_offset') | lines | indent }}
) as late (topic, partition, first_offset)
left anti join {{ earlier }} as earlier
    on
        late.topic = earlier.topic
        and late.partition = earlier.partition
        and late.first_offset > earlier.offset
