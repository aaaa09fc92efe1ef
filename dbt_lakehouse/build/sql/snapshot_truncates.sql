{#
  The truncates that full snapshots stand for, without the existing ones.

  Their metadata have the source's position, which places them among rows of other partitions, and
  the snapshot's last row as `reconciled`.

  Arguments:
      marks: the relation of snapshot_marks.
      ended: the first rows of the snapshots that have ended, with `last`.
      event_index, added_by: the truncates' values of these columns.
      events: other_events, to select from.
#}
select
    topic,
    partition,
    offset,
    {{ event_index }} as event_index,
    marks.timestamp,
    timestamp_micros(marks.log_time) as log_time,
    marks.format,
    'truncate' as operation,
    marks.source_database,
    marks.source_schema,
    marks.source_table,
    cast(null as string) as record_key,
    cast(null as string) as before,
    cast(null as string) as after,
    marks.occurred_at,
    cast(null as timestamp) as expires_at,
    concat(
        '{"reconciled":', ended.last, ',"source":',
        coalesce(get_json_object(marks.metadata, '$.source'), 'null'), '}'
    ) as metadata,
    cast(null as string) as error_code,
    cast(null as string) as error_detail,
    {{ added_by | literal }} as added_by
from {{ marks }} as marks
inner join {{ ended }} as ended using (topic, partition, offset)
left anti join (
    select topic, partition, offset
    from {{ events }}
    where added_by = {{ added_by | literal }}
) as added using (topic, partition, offset)
