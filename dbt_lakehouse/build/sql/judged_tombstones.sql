{#
  The events that open tombstones stand for: a delete of the existing row, or an error.

  Arguments:
      open_tombstones: the relation of the open tombstones.
      events: all events of their topics, to select from.
#}
with tombstones as (
    select * from {{ open_tombstones }}
),

events as (
    select
        *,
        {{ tombstone_parts.message_key() | indent(8) }} as message_key
    from {{ events | indent }} as events
    where
        operation in ({{ operations_of_rows }})
        and not {{ tombstone_parts.says_nothing() | indent(8) }}
),

earlier as (
    select
        topic,
        message_key,
        named_struct(
            'database', source_database, 'schema', source_schema, 'table', source_table
        ) as source,
        operation,
        record_key,
        {{ tombstone_parts.named_schema('$.schema_name') | indent(8) }} as schema_name,
        {{ payload_parts.event_position('events') | indent(8) }} as position
    from events
    left semi join tombstones using (topic, message_key)
),

-- The newest event of the key in each table.
found as (
    select
        tombstones.topic,
        tombstones.partition,
        tombstones.offset,
        earlier.source,
        first(named_struct(
            'database', tombstones.source_database,
            'schema', tombstones.source_schema,
            'table', tombstones.source_table
        )) as named,
        first(tombstones.schema_name) as named_schema,
        max_by(
            named_struct(
                'operation', earlier.operation,
                'record_key', earlier.record_key,
                'schema_name', earlier.schema_name
            ),
            earlier.position
        ) as newest
    from tombstones
    inner join earlier
        on
            tombstones.topic = earlier.topic
            and tombstones.message_key = earlier.message_key
            and tombstones.position > earlier.position
    group by tombstones.topic, tombstones.partition, tombstones.offset, earlier.source
),

topics as (
    select
        topic,
        count(
            distinct named_struct('d', source_database, 's', source_schema, 't', source_table)
        ) > 1 as has_several_tables
    from events
    group by topic
),

compared as (
    select
        *,
        newest.operation <> 'delete' as is_there,
        -- Null where nothing tells.
        case
            when named.table is not null then named <=> source
            when {{ tombstone_parts.names_table('named_schema', 'source.table')
                | indent(12) }} then true
            when newest.schema_name is not null then named_schema = newest.schema_name
            -- Rows whose messages have no schema: another table's name does not mean this table. A
            -- router gives all keys of its topic the topic's name.
            when has_several_tables and source.table is not null and named_schema <> topic
                then false
        end as is_meant
    from found
    inner join topics using (topic)
),

chosen as (
    select
        *,
        is_there and if(
            coalesce(bool_or(is_meant) over (partition by topic, partition, offset), false),
            coalesce(is_meant, false),
            is_meant is null
        ) as is_chosen
    from compared
),

rows_meant as (
    select
        topic,
        partition,
        offset,
        min(source) as source,
        min(newest.record_key) as record_key,
        count(*) as tables,
        array_join(array_sort(collect_list(
            concat_ws('.', source.database, source.schema, source.table)
        )), ', ') as names
    from chosen
    where is_chosen
    group by topic, partition, offset
)

select
    topic,
    partition,
    offset,
    1 as event_index,
    tombstones.timestamp,
    tombstones.log_time,
    tombstones.format,
    if(tables = 1, 'delete', 'invalid') as operation,
    if(tables = 1, source.database, null) as source_database,
    if(tables = 1, source.schema, null) as source_schema,
    if(tables = 1, source.table, null) as source_table,
    if(tables = 1, rows_meant.record_key, null) as record_key,
    cast(null as string) as before,
    cast(null as string) as after,
    if(tables = 1, tombstones.occurred_at, null) as occurred_at,
    cast(null as timestamp) as expires_at,
    '{"compacted":true}' as metadata,
    if(tables = 1, null, 'bad_field') as error_code,
    if(
        tables = 1,
        null,
        concat(
            'a tombstone of a compacted topic, whose key rows of several tables have (', names,
            '), and nothing tells which of them was deleted: none was. Give each table a topic of',
            ' its own, or keys whose schemas name their tables'
        )
    ) as error_detail,
    'tombstone' as added_by
from tombstones
inner join rows_meant using (topic, partition, offset)
-- A null value of an unwrapped row is the delete of rows that name no table.
where not (tombstones.operation = 'delete' and tables = 1 and source.table is null)
