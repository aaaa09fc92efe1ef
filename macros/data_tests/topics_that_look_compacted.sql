{#
  The topics of which nobody has said whether they are compacted, and that look it: tombstones stand
  behind missing offsets and no delete of their key, though the row is there. Debezium writes the
  two one after the other. In a topic that counts as compacted such a tombstone is a delete, in all
  others nothing, so its row stays. In a command that tests, each is told by its name, and where the
  first such tombstone is: keys are in no statement, for dbt writes those to its log.

  Arguments:
      events: other_events; what the command has added to it is looked at.
#}
{% macro topics_that_look_compacted(events) %}
    {% set topics %}
        select
            topic,
            count(*) as tombstones,
            min_by(partition, struct(partition, offset)) as partition,
            min_by(offset, struct(partition, offset)) as offset
        from ({{ dbt._tombstones_without_delete_sql(events) | indent(8) }})
        group by topic
    {% endset %}
    {% if not execute or flags.WHICH not in ['test', 'build', 'retry'] %}
        {% do return('(' ~ topics ~ ')') %}
    {% endif %}
    {% set found = run_query(topics ~ ' order by topic') %}
    {% set names, rows = [], [] %}
    {% for row in found %}
        {% do names.append(row.topic) %}
    {% endfor %}
    {% set said = adapter.compaction_of(names) %}
    {% for row in found if said[row.topic] is none %}
        {% set place = [dbt.sql_text(row.topic), row.tombstones, row.partition, row.offset] %}
        {% do rows.append('(' ~ place | join(', ') ~ ')') %}
        {% do exceptions.warn(
            'topic ' ~ row.topic ~ ' looks compacted: ' ~ row.tombstones
            ~ (' tombstone has' if row.tombstones == 1 else ' tombstones have')
            ~ ' no delete before, so rows stay. Say `compacted: true` in its entry in'
            ~ ' vars.topics if it is, `false` if not (docs/kafka.md)'
        ) %}
    {% endfor %}
    {# Found once: a test is asked twice otherwise. #}
    {% set values = 'values ' ~ rows | join(', ')
        ~ ' as found (topic, tombstones, partition, offset)' %}
    {% do return('(select * from ' ~ values ~ ')' if rows else '(' ~ topics ~ ' limit 0)') %}
{% endmacro %}

{#
  The added tombstones behind a missing offset whose key has a row as its newest event.

  Arguments:
      events: other_events.
#}
{% macro _tombstones_without_delete_sql(events) -%}
{%- set added = dbt.added_rows(events) -%}
{%- set earlier = events -%}
{#- `dbt compile` asks nothing of the lake, which would start Spark. -#}
{%- if execute and flags.WHICH not in ['compile', 'generate'] -%}
    {%- set found = 'select distinct topic from ' ~ added ~ " where operation = 'tombstone'"
        ~ ' and record_key is not null' -%}
    {#- Of what no tombstone is in, nothing is decoded. -#}
    {%- set topics = run_query(found).columns[0].values() | list -%}
    {%- set earlier = adapter.events_of_topics(events, topics) -%}
{%- endif -%}
with tombstones as (
    select
        topic,
        partition,
        offset,
        {{ adapter.part('tombstones', 'message_key') }} as message_key,
        {{ dbt.event_position('added') }} as position
    from {{ added }} as added
    left anti join (
        select topic, partition, offset + 1 as offset
        from {{ dbt.as_read(source('bronze', 'raw_payloads'), events) }}
    ) using (topic, partition, offset)
    where operation = 'tombstone' and record_key is not null
),

earlier as (
    select
        topic,
        operation,
        {{ adapter.part('tombstones', 'message_key') }} as message_key,
        {{ dbt.event_position('earlier') }} as position
    from {{ earlier }} as earlier
    where operation in ('snapshot', 'insert', 'update', 'upsert', 'delete', 'tombstone')
)

select
    tombstones.topic,
    tombstones.partition,
    tombstones.offset
from tombstones
inner join earlier
    on
        tombstones.topic = earlier.topic
        and tombstones.message_key = earlier.message_key
        and tombstones.position > earlier.position
group by tombstones.topic, tombstones.partition, tombstones.offset
having max_by(earlier.operation, earlier.position) not in ('delete', 'tombstone')
{%- endmacro %}
