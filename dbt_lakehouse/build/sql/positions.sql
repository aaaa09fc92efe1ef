{#
  The partitions of rows, each with its first and last offset.

  Arguments:
      rows: a relation with topic, partition and offset.
#}
select to_json(struct(topic, partition, min(offset) as first, max(offset) as last)) as place
from {{ rows }}
group by topic, partition
