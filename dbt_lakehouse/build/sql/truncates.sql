{#
  Truncates as a relation: `_position`, `_lh_time`, and in a log of several source tables `_source`.

  Arguments:
      truncates: their `source`, `position` and `time`, as SQL; at least one.
      several_sources: whether the log has several source tables.
#}
select
    _position,
    _lh_time
    {{- ", from_json(source, 'database string, schema string, table string') as _source"
        if several_sources }}
from values
    {{ truncates | tuples('source', 'position', 'time') | lines | indent }}
    as truncates (source, _position, _lh_time)
