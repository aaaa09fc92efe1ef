{#
  The places of a log's rows in the source's order, by partition: the number of rows without one, or
  with that of another row (' !'), the number of truncates among these, the newest place, and the
  first and last offset.

  Arguments:
      rows: the rows of the log, to select from.
#}
select
    _position.topic,
    _position.partition,
    count(*) as rows,
    count_if(coalesce(_position.source like '% !', true)) as placeless,
    count_if(_operation = 'truncate' and _position.source is null) as truncates,
    max(_position.source) as newest,
    min(_position.offset) as first_offset,
    max(_position.offset) as last_offset
from {{ rows }}
group by _position.topic, _position.partition
