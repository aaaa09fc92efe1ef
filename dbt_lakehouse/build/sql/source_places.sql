{#
  The places of a log's rows in the source's order, by partition: the number of rows without one, or
  with that of another row (' !'), the number of truncates among these, and the newest place.

  Arguments:
      rows: the rows of the log, to select from.
#}
select
    _position.topic,
    _position.partition,
    count(*) as rows,
    count_if(coalesce(_position.source like '% !', true)) as placeless,
    count_if(_operation = 'truncate' and _position.source is null) as truncates,
    max(_position.source) as newest
from {{ rows }}
group by _position.topic, _position.partition
