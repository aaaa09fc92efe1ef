{#
  What the rows of a log say of their places in the source's order, by partition: how many say none,
  or have that of another row (' !'), how many of these are truncates, the newest place, and between
  which offsets they lie.

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
