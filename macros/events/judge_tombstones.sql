{#
  Adds to other_events the deletes of which compaction has left nothing but a tombstone: behind
  the tombstone, as event 1 of its payload, with `{"compacted":true}` as metadata.

  In a topic that counts as compacted (`compacted: true` in `vars.topics`, or what a broker said at
  a landing) a tombstone is a delete if the newest event of its key before it, in that topic, is of
  a row that is there. So one that follows its delete is none, and what was never there is not
  deleted. The table is that of the row; of several tables with that key, the one that the key's
  schema names, or the only one that has the row. If that leaves more than one, the payload is
  invalid, and nothing is deleted.

  The tombstones of a run have been looked at then, and all before them. What is judged is kept with
  the table, so a run that was cut off is made up for by the next one, and so is what came late
  (dbt_lakehouse/dbt/compaction.py). To judge twice adds nothing.
#}
{% macro judge_tombstones() %}
    {% set unjudged = adapter.unjudged(this) %}
    {% if unjudged is none %}{% do return('') %}{% endif %}
    {% set judging = adapter.judging(this, dbt._news_of_topics(unjudged)) %}
    {% if judging.windows
        and adapter.evaluate(dbt.view_of('tombstones'), dbt._open_tombstones_sql(judging)) > 0
        and adapter.evaluate(dbt.view_of('deletes'), dbt._judged_tombstones_sql(judging)) > 0 %}
        {% do adapter.append_more(
            this, 'select * from ' ~ dbt.view_of('deletes'), adapter.news_aggregates()
        ) %}
        {% do dbt.log_info(
            this ~ ': ' ~ dbt.count_rows(dbt.view_of('deletes'))
            ~ ' tombstones of compacted topics judged'
        ) %}
    {% endif %}
    {% do adapter.drop_evaluated(dbt.view_of('')) %}
    {% do adapter.keep_judged(this, judging) %}
{% endmacro %}

{# The events of some topics that meet a condition, with all that was added to them. #}
{% macro _events_of_topics(judging, condition) -%}
    {{ dbt.events_of(
        adapter.bronze_input(adapter.run_of(this), judging.topic_names()), [condition], []
    ) }}
{%- endmacro %}

{# The topics of events with the least of their log times in microseconds, none if one has none. #}
{% macro _news_of_topics(events) %}
    {% set news = [] %}
    {% for topic, log_time in run_query('
        select topic, if(bool_or(log_time is null), null, unix_micros(min(log_time)))
        from ' ~ events ~ '
        group by topic
    ') %}
        {% do news.append([topic, log_time]) %}
    {% endfor %}
    {% do return(news) %}
{% endmacro %}

{#
  The tombstones of the windows that no delete and no tombstone of their key stands before, as far
  as the windows tell, and that have not been judged.

  Arguments:
      judging: as of adapter.judging.
#}
{% macro _open_tombstones_sql(judging) -%}
with events as (
    select
        *,
        {{ dbt.message_key() }} as message_key,
        {{ dbt.says_nothing() }} as says_nothing,
        {{ dbt.event_position('events') }} as position
    from {{ dbt._events_of_topics(judging, '(' ~ judging.condition() ~ ')') }} as events
    where
        (
            operation in ('snapshot', 'insert', 'update', 'upsert', 'delete', 'tombstone')
            or (operation = 'invalid' and event_index = 1)
        )
),

named as (
    select
        * except (metadata),
        coalesce(
            {{ dbt._named_schema("'$.event_key_schema'") }},
            {{ dbt._named_schema("'$.schema_name'") }}
        ) as schema_name
    from events
    left semi join (select topic, message_key from events where says_nothing)
        using (topic, message_key)
),

followed as (
    select
        *,
        lag(named_struct(
            'operation', operation,
            'table', source_table,
            'schema_name', schema_name
        )) over (
            partition by topic, message_key
            order by position
        ) as before_it
    from named
)

select * from followed
left anti join (
    select topic, partition, offset from events where event_index = 1
) using (topic, partition, offset)
where
    says_nothing
    and not (
        coalesce(before_it.operation in ('delete', 'tombstone'), false)
        -- Of another table, it would be no delete of this one's row.
        and (
            schema_name is null
            or schema_name <=> before_it.schema_name
            or coalesce({{ dbt._names_table('schema_name', 'before_it.table') }}, false)
        )
    )
{%- endmacro %}

{#
  The events that tombstones stand for: a delete of the row that was there, or what is wrong.

  Arguments:
      judging: as of adapter.judging.
#}
{% macro _judged_tombstones_sql(judging) -%}
with tombstones as (
    select * from {{ dbt.view_of('tombstones') }}
),

events as (
    select
        *,
        {{ dbt.message_key() }} as message_key
    from {{ dbt._events_of_topics(judging, 'true') }} as events
    where
        operation in ('snapshot', 'insert', 'update', 'upsert', 'delete')
        and not {{ dbt.says_nothing() }}
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
        {{ dbt._named_schema("'$.schema_name'") }} as schema_name,
        {{ dbt.event_position('events') }} as position
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
            when {{ dbt._names_table('named_schema', 'source.table') }} then true
            when newest.schema_name is not null then named_schema = newest.schema_name
            -- Rows whose messages have no schema: another table's name is none of this one. A
            -- router calls all keys of its topic as the topic is called.
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
{%- endmacro %}

{# The key of an event's message. MongoDB's events have that of the document as their record_key. #}
{% macro message_key() -%}
    coalesce(
        get_json_object(if(contains(metadata, '"bson":'), metadata, null), '$.event_key'),
        record_key
    )
{%- endmacro %}

{# Whether an event is one of a key alone: a tombstone, or a null value of unwrapped rows. #}
{% macro says_nothing() -%}
    (
        record_key is not null
        and (
            operation = 'tombstone'
            or (
                operation = 'delete'
                and format like 'debezium_unwrapped_%'
                and before is null
                and source_table is null
            )
        )
    )
{%- endmacro %}

{# What Debezium calls a table in the name of a schema, null for another one. #}
{% macro _named_schema(path) -%}
    nullif(regexp_extract(
        get_json_object(metadata, {{ path }}), '^(.+)[.](?:Key|Value|Envelope)$', 1
    ), '')
{%- endmacro %}

{#
  Whether the name of a key's schema is of a table: `prefix.schema.table`, in which a converter may
  have put `_` for what Avro's names can't have.
#}
{% macro _names_table(schema_name, table) -%}
    endswith(
        regexp_replace({{ schema_name }}, '[^A-Za-z0-9_.]', '_'),
        concat('.', regexp_replace({{ table }}, '[^A-Za-z0-9_.]', '_'))
    )
{%- endmacro %}
