{#
  Decodes quarantined payloads again, with today's decoders and today's `vars.topics`: what
  `lakehouse redrive` runs.

  Events that are there now are appended to `other_events` at the positions of their payloads, with
  the log time that those have; only then the `invalid` rows that they replace go. Change logs
  follow these appends, so the next `dbt run` takes the events on, and folds keys anew for which
  they come before what is known. A payload that fails still stays in quarantine, with
  today's reason. Events of a payload that were good already stay as they are. Each step can be
  repeated: what a crash has left, the next call finds done, or does.

  Leaves what it has done in the view `global_temp.redriven`, for the session that has asked:
  payloads (tried), decoded (of them, without any `invalid` event now), events (appended, without
  the invalid ones).

  Arguments:
      codes, topics: only payloads with one of these error codes, of these topics;
          an empty list takes all.
#}
{% macro redrive(codes=[], topics=[]) %}
    {% set events, quarantine = ref('other_events'), ref('quarantined_payloads') %}
    {% set position = 'topic, partition, offset' %}
    {% set follows = adapter.has_read_all(quarantine, events, 'invalid') %}
    {% do adapter.evaluate(
        'redrive_payloads',
        dbt._redrive_payloads(dbt.pinned(events), dbt.pinned(quarantine), codes, topics)
    ) %}
    {% set decoded %}
        select decoded.*, redrive_payloads.log_time
        from {{ dbt.decoded_events('redrive_payloads') }} as decoded
        inner join redrive_payloads using ({{ position }})
    {% endset %}
    {% do adapter.evaluate('redrive_events', decoded) %}
    {% set missing %}
        select redrive_events.*, 'redrive' as added_by
        from redrive_events
        left anti join {{ dbt.pinned(events) }} as already
            on {{ dbt._same_event('already', 'redrive_events') }}
            and (
                already.operation <> 'invalid'
                or {{ dbt._same_error('already', 'redrive_events') }}
            )
        -- What was good before stands in change logs.
        {%- for each in adapter.logs_to_look_at() if each.is_there %}
        left anti join {{ each.relation }} as log_{{ loop.index }}
            on {{ dbt._same_event('log_' ~ loop.index ~ '._position', 'redrive_events') }}
        {%- endfor %}
    {% endset %}
    {% do adapter.evaluate('redrive_missing', missing) %}
    {% set outcome = run_query("
        select
            (select count(*) from redrive_payloads) as payloads,
            (
                select count(*) from (
                    select 1 from redrive_events
                    group by topic, partition, offset
                    having count_if(operation = 'invalid') = 0
                )
            ) as decoded,
            (select count_if(operation <> 'invalid') from redrive_missing) as events,
            (select count(*) from redrive_missing) as rows
    ")[0] %}
    {% if outcome['rows'] > 0 %}
        {% set columns = adapter.get_columns_in_relation(events)
            | map(attribute='quoted') | join(', ') %}
        {% do run_query(
            'insert into ' ~ events ~ ' (' ~ columns ~ ') select ' ~ columns
            ~ ' from redrive_missing'
        ) %}
    {% endif %}
    {% if outcome['payloads'] > 0 %}
        {% do run_query(dbt._delete_replaced(events, "target.operation = 'invalid'")) %}
        {% do run_query(dbt._delete_replaced(quarantine, 'true')) %}
        {# Of one that is behind, the next run adds them with all else that is new. #}
        {% if follows %}
            {% do adapter.write_as_read(quarantine, events, dbt._quarantine_again(quarantine)) %}
        {% endif %}
    {% endif %}
    {% do run_query(
        'create or replace global temporary view redriven as select '
        ~ outcome['payloads'] ~ ' as payloads, '
        ~ outcome['decoded'] ~ ' as decoded, ' ~ outcome['events'] ~ ' as events'
    ) %}
    {% do adapter.drop_evaluated('redrive_') %}
{% endmacro %}

{#
  The payloads to decode again, with the log time of their position.

  Arguments, besides those of redrive:
      events, quarantine: the tables as they are to be read.
#}
{% macro _redrive_payloads(events, quarantine, codes, topics) %}
    select
        payloads.topic,
        payloads.partition,
        payloads.offset,
        payloads.timestamp,
        positions.log_time,
        payloads.key,
        payloads.value,
        payloads.headers
    from {{ dbt.pinned(source('bronze', 'raw_payloads')) }} as payloads
    inner join (
        select events.topic, events.partition, events.offset, max(events.log_time) as log_time
        from {{ events }} as events
        left semi join (
            select topic, partition, offset
            from {{ quarantine }}
            -- What is wrong with a tombstone of a compacted topic, its bytes don't say.
            left anti join (
                select topic, partition, offset, event_index
                from {{ events }}
                where operation = 'invalid' and metadata = '{"compacted":true}'
            ) using (topic, partition, offset, event_index)
            where
                {{ dbt._is_one_of('error_code', codes) }}
                and {{ dbt._is_one_of('topic', topics) }}
        ) using (topic, partition, offset)
        group by events.topic, events.partition, events.offset
    ) as positions using (topic, partition, offset)
{% endmacro %}

{# A condition: a column has one of some values; without any, it always holds. #}
{% macro _is_one_of(column, values) %}
    {% set texts = [] %}
    {% for value in values %}
        {% do texts.append(dbt.sql_text(value)) %}
    {% endfor %}
    {% do return(column ~ ' in (' ~ texts | join(', ') ~ ')' if texts else 'true') %}
{% endmacro %}

{# Whether two rows are of the same place in the same payload. #}
{% macro _same_event(one, other) -%}
    {%- for column in ['topic', 'partition', 'offset', 'event_index'] -%}
        {{ one }}.{{ column }} = {{ other }}.{{ column }}{{ ' and ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}

{# Whether two rows tell the same of a payload that can't be decoded. #}
{% macro _same_error(one, other) -%}
    {{ other }}.operation = 'invalid'
    {%- for column in ['format', 'error_code', 'error_detail'] %}
    and {{ one }}.{{ column }} <=> {{ other }}.{{ column }}
    {%- endfor %}
{%- endmacro %}

{# Deletes the rows of the payloads that are no longer what is wrong with them. #}
{% macro _delete_replaced(relation, condition) -%}
    delete from {{ relation }} as target
    where
        {{ condition }}
        and exists (
            select 1 from redrive_payloads as payload
            where
                target.topic = payload.topic
                and target.partition = payload.partition
                and target.offset = payload.offset
        )
        and not exists (
            select 1 from redrive_events as event
            where
                {{ dbt._same_event('target', 'event') }}
                and {{ dbt._same_error('target', 'event') }}
        )
{%- endmacro %}

{#
  Adds what is wrong with the payloads now. The next run of the model would find the same events
  among the appended ones; so that they are read is noted in the same commit.
#}
{% macro _quarantine_again(quarantine) -%}
    {%- set columns = [
        'topic', 'partition', 'offset', 'event_index', 'timestamp', 'format',
        'error_code', 'error_detail'
    ] -%}
    insert into {{ quarantine }} ({{ columns | join(', ') }}, key, value)
    select
        {%- for column in columns %}
        event.{{ column }},
        {%- endfor %}
        payload.key,
        payload.value
    from redrive_events as event
    inner join redrive_payloads as payload
        on
            event.topic = payload.topic
            and event.partition = payload.partition
            and event.offset = payload.offset
    where
        event.operation = 'invalid'
        and not exists (
            select 1 from {{ quarantine }} as already
            where {{ dbt._same_event('already', 'event') }}
        )
{%- endmacro %}
