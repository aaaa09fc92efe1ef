{#
  What the rows of a log say of their places in the source's order, by partition: how many say none,
  or have that of the row before them (' !'), the newest place, and the last.

  Arguments:
      rows: the rows of the log, to select from.
#}
select
    _position.topic,
    _position.partition,
    count(*) as rows,
    count_if(coalesce(_position.source like '% !', true)) as placeless,
    max(_position.source) as newest,
    max_by(
        regexp_replace(_position.source, ' !$', ''), struct(_position.offset, _position.event_index)
    ) filter (where _position.source is not null) as last
from {{ rows }}
group by _position.topic, _position.partition
