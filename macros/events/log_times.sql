{#
  Where the log time of a payload is not its own timestamp, which is rare, since few timestamps lie
  behind an earlier one: a relation of topic, partition, offset and log_time, or none for no such
  payload. It is evaluated before the payloads are decoded, so that Spark knows how small it is and
  doesn't shuffle all events to join it.

  Arguments:
      payloads: the new rows of bronze, as new_rows gives them.
      partitions: as of partitions_of, of these rows.
      log_times: the table of these.
#}
{% macro log_time_corrections(payloads, partitions, log_times) %}
    {% if not dbt.is_building() %}
        {% do return('(' ~ dbt._log_time_corrections_sql(payloads, none, log_times) ~ ')') %}
    {% elif not partitions %}
        {% do return(none) %}
    {% endif %}
    {% set run = adapter.run_of(this) %}
    {% set earlier = dbt._earlier_log_times(run, log_times) if run.is_incremental else none %}
    {% set known = adapter.kept(this, 'lakehouse.log_times') if run.is_incremental else {} %}
    {% if known is none %}
        {% set known = dbt._log_times_of_partitions(earlier) %}
    {% endif %}
    {% set times = adapter.log_times(run, partitions, known) %}
    {% if not times.needs_correction %}
        {% do return(none) %}
    {% endif %}
    {% set corrected = adapter.evaluate(
        dbt.view_of('corrections'), dbt._log_time_corrections_sql(payloads, times.carried, earlier)
    ) %}
    {% do return(dbt.view_of('corrections') if corrected > 0 else none) %}
{% endmacro %}

{#
  Arguments:
      payloads: as of log_time_corrections.
      carried: the log times that earlier runs have given to the partitions, a list of
          {topic, partition, log_time} as SQL; none where only all earlier ones can tell.
      earlier: a relation of the log times of all earlier payloads.
#}
{% macro _log_time_corrections_sql(payloads, carried, earlier) -%}
    {%- set reads_earlier = carried is none and dbt.goes_on() -%}
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

{% elif reads_earlier -%}
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
    from {{ earlier }} as earlier
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
    {%- if carried or reads_earlier %}
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
        {{ 'least(' if reads_earlier }}max(seen) over (
            partition by topic, partition
            order by offset
            rows between unbounded preceding and current row
        )
        {%- if reads_earlier %},
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

{# The log times of the payloads that earlier runs have looked at, to select from. #}
{% macro _earlier_log_times(run, log_times) -%}
(
    select
        topic,
        partition,
        offset,
        coalesce(log_times.log_time, payloads.timestamp) as log_time
    from {{ run.rows_before(run.origin) }} as payloads
    left join {{ log_times }} as log_times using (topic, partition, offset)
)
{%- endmacro %}

{# What partitions have got so far: {partition: [last offset, its log time in microseconds]}. #}
{% macro _log_times_of_partitions(earlier) %}
    {% set known = {} %}
    {% for partition, offset, log_time in run_query(
        'select to_json(struct(topic, partition)), max(offset),'
        ~ ' unix_micros(max_by(log_time, offset)) from ' ~ earlier ~ ' group by topic, partition'
    ) %}
        {% do known.update({
            partition: [offset | int, none if log_time is none else log_time | int]
        }) %}
    {% endfor %}
    {% do return(known) %}
{% endmacro %}
