{#
  What the rows of a log say of their places in the source's order, by partition: how many say none,
  and the newest.

  Arguments:
      rows: the rows of the log, to select from.
#}
select
    _position.topic,
    _position.partition,
    count(*) as rows,
    count_if(_position.source is null) as placeless,
    max(_position.source) as newest
from {{ rows }}
group by _position.topic, _position.partition
