{#
  Where the log time of a payload is not its own timestamp, which is rare, since few timestamps lie
  behind an earlier one: a relation of topic, partition, offset and log_time, or none for no such
  payload. It is evaluated before the payloads are decoded, so that Spark knows how small it is and
  doesn't shuffle all events to join it.

  Arguments:
      payloads: the new rows of bronze, as new_rows gives them.
      partitions: as of partitions_of, of these rows.
#}
{% macro log_time_corrections(payloads, partitions) %}
    {% if not is_building() or model.resource_type == 'unit_test' %}
        {% do return('(' ~ _log_time_corrections_sql(payloads, none) ~ ')') %}
    {% elif not partitions %}
        {% do return(none) %}
    {% endif %}
    {% set name = make_temp_relation(this, '__dbt_tmp').identifier ~ '__corrections' %}
    {% set corrected = evaluate(
        name, _log_time_corrections_sql(payloads, _carried_log_times(partitions))
    ) %}
    {% do return(name if corrected > 0 else none) %}
{% endmacro %}

{#
  Arguments:
      payloads: as of log_time_corrections.
      carried: as of _carried_log_times.
#}
{% macro _log_time_corrections_sql(payloads, carried) -%}
    {%- set reads_log = carried is none and is_incremental() -%}
with payloads as (
    select
        topic,
        partition,
        offset,
        timestamp
    from {{ payloads }}
),

{% if carried -%}
-- What earlier runs have given to the partitions that have new payloads, of which each comes after.
given as (
    select
        carried.topic,
        carried.partition,
        cast(-1 as bigint) as offset,
        carried.given_log_time
    from (
        values
        {% for each in carried -%}
        ({{ each.topic }}, {{ each.partition }}, {{ each.log_time }}){{ ',' if not loop.last }}
        {% endfor %}
    ) as carried (topic, partition, given_log_time)
),

{% elif reads_log -%}
-- What earlier runs have given to the partitions that have new payloads. Payloads that come after
-- later offsets of their partition (captures landed out of order) must not get a log time above
-- that of the offsets behind them. Nothing is lost by this window: it adds no payloads.
first_offsets as (
    select
        topic,
        partition,
        min(offset) as first_offset
    from payloads
    group by topic, partition
),

earlier_events as (
    select
        earlier.topic,
        earlier.partition,
        case
            when earlier.offset < first_offsets.first_offset then -1
            else earlier.offset
        end as offset,
        earlier.log_time
    from {{ this }} as earlier
    inner join first_offsets using (topic, partition)
),

given as (
    select
        topic,
        partition,
        offset,
        max(log_time) as given_log_time
    from earlier_events
    group by topic, partition, offset
),

{% endif -%}
timeline as (
    select
        topic,
        partition,
        offset,
        timestamp as seen,
        timestamp,
        cast(null as timestamp) as given_log_time
    from payloads
    {%- if carried or reads_log %}
    union all
    select
        topic,
        partition,
        offset,
        given_log_time as seen,
        cast(null as timestamp) as timestamp,
        given_log_time
    from given
    {%- endif %}
),

log_times as (
    select
        topic,
        partition,
        offset,
        timestamp,
        given_log_time,
        {{ 'least(' if reads_log }}max(seen) over (
            partition by topic, partition
            order by offset
            rows between unbounded preceding and current row
        )
        {%- if reads_log %},
            -- The rows behind, as the rows before in the other order: Spark computes a frame that
            -- has no end anew for every row.
            min(given_log_time) over (
                partition by topic, partition
                order by offset desc
                rows between unbounded preceding and 1 preceding
            )
        )
        {%- endif %} as log_time
    from timeline
)

select
    topic,
    partition,
    offset,
    log_time
from log_times
where given_log_time is null and not log_time <=> timestamp
{%- endmacro %}

{#
  The log times that earlier runs have given to the partitions of new payloads, without a look at
  the log itself: the property `lakehouse.log_times` of change_events has the last offset of each
  partition and its log time.

  Returns a list of {topic, partition, log_time}, each as SQL, for the partitions that have one; or
  none where only the log can tell: payloads lie before offsets that came earlier, or there are too
  many partitions for a property.

  Arguments:
      partitions: as of log_time_corrections.
#}
{% macro _carried_log_times(partitions) %}
    {% set held = _properties(this).get('lakehouse.log_times', '') if is_incremental() else '{}' %}
    {% set notes = adapter.noted_properties(this) %}
    {% if held == 'too many partitions' %}
        {% do notes.update({'lakehouse.log_times': held}) %}
        {% do return(none) %}
    {% endif %}
    {% set known = fromjson(held) if held else _log_times_of_log() %}
    {% set carried, unordered = [], [] %}
    {% for each in partitions %}
        {% set times = [each.newest] %}
        {% if each.name in known %}
            {% set offset, log_time = known[each.name] %}
            {% if each.first_offset <= offset %}
                {% do unordered.append(each.name) %}
            {% endif %}
            {% do times.append(log_time) %}
            {% do carried.append({
                'topic': sql_text(each.topic), 'partition': each.partition,
                'log_time': _moment(log_time)
            }) %}
        {% endif %}
        {% set times = times | reject('none') | map('int') | list %}
        {% do known.update({each.name: [each.last_offset | int, times | max if times else none]}) %}
    {% endfor %}
    {% set is_too_long = known | length > 1000 %}
    {% do notes.update({
        'lakehouse.log_times':
            'too many partitions' if is_too_long else '' if unordered else tojson(known)
    }) %}
    {% do return(none if is_too_long or unordered else carried) %}
{% endmacro %}

{# What the log says of its partitions: {partition: [last offset, its log time in microseconds]}. #}
{% macro _log_times_of_log() %}
    {% set known = {} %}
    {% for partition, offset, log_time in run_query(
        'select to_json(struct(topic, partition)), max(offset),'
        ~ ' unix_micros(max_by(log_time, offset)) from ' ~ this ~ ' group by topic, partition'
    ) %}
        {% do known.update({
            partition: [offset | int, none if log_time is none else log_time | int]
        }) %}
    {% endfor %}
    {% do return(known) %}
{% endmacro %}
