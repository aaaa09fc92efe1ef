{#
  A relation of truncates without any.

  Arguments:
      several_sources: whether the log has several source tables.
      position_type: the type of positions in the log.
#}
select
    cast(null as {{ position_type }}) as _position,
    cast(null as timestamp) as _lh_time
    {{- ', cast(null as struct<database: string, schema: string, table: string>) as _source'
        if several_sources }}
where false
