{#
  The rows that were committed to an append-only table since the running model last read it, to
  select from:

      select ... from {{ new_rows(ref('change_events')) }}

  The first run and a full refresh read the whole table. The upper end is pinned to the snapshot
  that is current now, so rows that come while the model runs belong to the next run: none is lost,
  none is read twice. Compaction of the table changes nothing; after its snapshots have been
  expired, the rows' own sequence numbers serve instead.

  Arguments:
      relation: an Iceberg table that only ever gets new rows.
#}
{% macro new_rows(relation) -%}
    {%- if not is_building() or model.resource_type == 'unit_test' -%}
        {{ relation }}
    {%- else -%}
        {%- set mark = _marks().get(relation.schema ~ '.' ~ relation.identifier)
            if is_incremental() -%}
        {%- set state = _table_state(relation) -%}
        {%- do _note_read(relation, state) -%}
        {%- if state.snapshot == 'none' or (mark and mark.snapshot == state.snapshot) -%}
            (select * from {{ relation }} where false)
        {%- elif not mark or mark.snapshot == 'none' -%}
            (select * from {{ relation }} version as of {{ state.snapshot }})
        {%- elif adapter.has_snapshot(relation, mark.snapshot) -%}
            (select * from {{ relation }} with (
                'start-snapshot-id' = '{{ mark.snapshot }}',
                'end-snapshot-id' = '{{ state.snapshot }}'
            ))
        {%- else -%}
            (
                select * from {{ relation }} version as of {{ state.snapshot }}
                where _last_updated_sequence_number > {{ mark.sequence }}
            )
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}
