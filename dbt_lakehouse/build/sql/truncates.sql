{#
  Truncates as a relation: `_position`, `_lh_time`, and in a log of several source tables `_source`.

  Arguments:
      truncates: fold.Truncate.
      several_sources: whether the log has several source tables.
      position_type: the type of positions in the log.
#}
{% if truncates %}
select
    _position,
    _lh_time
    {{- ", from_json(source, 'database string, schema string, table string') as _source"
        if several_sources }}
from values
    {% for each in truncates %}
    ({{ each.source | literal }}, {{ each.position }}, {{ each.time }}){{ ',' if not loop.last }}
    {% endfor %}
    as truncates (source, _position, _lh_time)
{% else %}
select
    cast(null as {{ position_type }}) as _position,
    cast(null as timestamp) as _lh_time
    {{- ', cast(null as struct<database: string, schema: string, table: string>) as _source'
        if several_sources }}
where false
{% endif %}
