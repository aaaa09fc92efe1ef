{#
  Parts of statements for the events of payloads: the selection of payloads, their decoding, and the
  selection of their events.
#}

{#
  The wire format of a payload (first match wins), or null without a match. It reads the payload's
  topic, and also key, value and headers if an entry has a `when`.

  Arguments:
      entries: those of `vars.topics`, a topics.TopicRule each, with its `when` as SQL or none.
#}
{% macro payload_format(entries) %}
{% if not entries %}
cast(null as string)
{%- else %}
case
    {% for entry, when in entries %}
    when
        {% if entry.topic is not none %}
        topic in ({{ entry.topic | literal }}, {{ (entry.land_as or entry.topic) | literal }})
        {% else %}
        topic rlike {{ ('^(?:' ~ entry.pattern ~ ')$') | literal }}
        {% endif %}
        {% if when is not none %}
        and {{ when }}
        {% endif %}
        then {{ entry.format | literal }}
    {% endfor %}
    else cast(null as string)
end
{%- endif %}
{%- endmacro %}

{# Payloads with their formats, to select from. #}
{% macro formatted(payloads, format) %}
(select *, {{ format }} as format from {{ payloads }})
{%- endmacro %}

{#
  The payloads that are read, with their formats and log times, to select from.

  Arguments:
      input: the input of the log, a LogInput.
      format: SQL for the wire format of a payload.
      conditions: the conditions that payloads meet.
#}
{% macro payloads_to_read(input, format, conditions) %}
(
    select * from (
        select
            payloads.*,
            {{
                'coalesce(log_times.log_time, payloads.timestamp)' if input.log_times
                else 'payloads.timestamp'
            }} as log_time,
            {{ format | indent(12) }} as format
        from {{ input.payloads }} as payloads
        {% if input.log_times %}
        left join {{ input.log_times }} as log_times using (topic, partition, offset)
        {% endif %}
        {% if input.topics is not none %}
        where topic in ({{ input.topics | map('literal') | join(', ') }})
        {% endif %}
    )
    {% if conditions or input.may_name %}
    where {{ (conditions + [input.may_name]) | select | join(' and ') }}
    {% endif %}
)
{%- endmacro %}

{# Whether a payload's headers name the other key of a key update. #}
{% macro names_other_key() %}
coalesce(
    array_contains(headers.key, '__debezium.oldkey')
    or array_contains(headers.key, '__debezium.newkey'),
    false
)
{%- endmacro %}

{# The headers of a payload that have one of these names, for a function that takes no others. #}
{% macro headers_named(names) %}
if(
    headers is null,
    array(),
    filter(headers, header -> header.key in ({{ names | map('literal') | join(', ') }}))
)
{%- endmacro %}

{#
  The arguments of `decode_payload`. Headers are passed to Python only if they may be read: for
  unwrapped rows, and for the two messages of a key update. All others would cost more than they are
  worth. They are empty and not null: Spark asks for a batch's size at each of its rows, and Arrow's
  lists then scan all nulls behind their last value (five CPU seconds for 300,000 rows).

  Arguments:
      format: the SQL of a payload's format.
      headers: the names of the headers that the log has columns of.
#}
{% macro message_of(format, headers=[]) %}
format, key, value
{%- if headers or "'debezium_" in format -%}
, if(
    headers is not null
    and (
        format like 'debezium_unwrapped_%'
        or (
            format like 'debezium_%'
            and {{ names_other_key() | indent(12) }}
        )
    ),
    headers,
    {{ headers_named(headers) | indent if headers else 'array()' }}
)
{%- endif %}
{%- endmacro %}

{#
  A function's results for the events of payloads, with their origin, to select from.

  Arguments:
      payloads: a relation with topic, partition, offset, timestamp, key, value, headers and format.
      format: the SQL of that format.
      function: its name.
      fields: the columns of its result; none for those of `decode_payload`.
      more: further columns of the payloads.
      of_topic: whether the function's first argument is the topic.
      headers: as of message_of, for a log's own function.
#}
{% macro events_in(
    payloads, format, function='decode_payload', fields=none, more=[], of_topic=false, headers=[]
) %}
(
    select
        payloads.topic,
        payloads.partition,
        payloads.offset,
        payloads.timestamp,
        payloads.format,
        {{ more | each('payloads.{}') | lines_with_commas | indent(8) }}
        event.*
    from {{ payloads | indent }} as payloads
        lateral view inline({{ function }}(
            {{ 'topic, ' if of_topic }}{{ message_of(format, headers) | indent(12) }}
        )) event as
        {{ (fields or event_fields) | join(', ') }}
)
{%- endmacro %}

{#
  The wanted events of payloads, without those that were decoded at another time. The latter are all
  events of a payload on which a decoder failed, or whose beginning was invalid in another format.
#}
{% macro wanted(events, input, conditions) %}
(
    select events.* from {{ events | indent }} as events
    {% if input.excluded is not none %}
    left anti join (
        select
            topic,
            partition,
            offset,
            event_index,
            format,
            if(operation = 'invalid' and event_index = 0, error_code, null) as began_with
        from {{ input.excluded }}
        where operation = 'invalid' or added_by = 'redrive'
    ) as excluded
        on
            events.topic = excluded.topic
            and events.partition = excluded.partition
            and events.offset = excluded.offset
            and (
                events.event_index = excluded.event_index
                or excluded.began_with = 'decoder_failed'
                or (excluded.began_with is not null and not events.format <=> excluded.format)
            )
    {% endif %}
    {% if conditions %}
    where {{ conditions | join(' and ') }}
    {% endif %}
)
{%- endmacro %}

{# Events that no payload contains itself, to select from. #}
{% macro added(input, conditions) %}
(
    select * from {{ input.added or '(select * from ' ~ input.none ~ ' where false)' }}
    where {{ (['added_by is not null'] + conditions) | join(' and ') }}
)
{%- endmacro %}

{# Events with an empty `_lh_headers`, to select from. #}
{% macro without_headers(events) %}
(
    select *, cast(array() as array<struct<key: string, value: binary>>) as _lh_headers
    from {{ events | indent }}
)
{%- endmacro %}

{#
  Events with the headers of redriven payloads as `_lh_headers`, to select from.

  Arguments:
      events: a relation as of `added`. The other events there have none.
      bronze: all payloads, to select from.
      headers: the names of the headers.
#}
{% macro with_headers_of_redriven(events, bronze, headers) %}
(
    select events.*, if(payloads._lh_headers is null, array(), payloads._lh_headers) as _lh_headers
    from {{ events | indent }} as events
    left join (
        -- Events of redriven payloads are few.
        select /*+ broadcast(redriven) */
            topic,
            partition,
            offset,
            {{ headers_named(headers) | indent(12) }} as _lh_headers
        from {{ bronze }}
        left semi join (
            select topic, partition, offset from {{ events | indent(12) }}
            where added_by = 'redrive'
        ) as redriven using (topic, partition, offset)
    ) as payloads
        on
            events.topic = payloads.topic
            and events.partition = payloads.partition
            and events.offset = payloads.offset
            and events.added_by = 'redrive'
)
{%- endmacro %}

{#
  All events of some relations, to select from.

  Arguments:
      relations: relations with the columns of an event.
#}
{% macro all_of(relations) %}
(
    {% for events in relations %}
    select {{ event_columns | join(', ') }}
    from {{ events | indent }}
    {{ 'union all' if not loop.last }}
    {% endfor %}
)
{%- endmacro %}

{#
  The place of an event in the log order, as a struct; structs compare field by field.

  Arguments:
      relation: the alias of a relation with the columns of other_events.
#}
{% macro event_position(relation, source=none) %}
named_struct(
    {% if source %}
    'source', {{ source }},
    {% endif %}
    'log_time', {{ relation }}.log_time,
    'topic', {{ relation }}.topic,
    'partition', {{ relation }}.partition,
    'offset', {{ relation }}.offset,
    'event_index', {{ relation }}.event_index
)
{%- endmacro %}
