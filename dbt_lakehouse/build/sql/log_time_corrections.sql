{#
  The payloads whose log time differs from their timestamp.

  Arguments:
      payloads: the new rows of bronze.
      given: SQL of the log times that earlier runs have given, as of carried_log_times and
          given_log_times; none if there are none.
      earlier: a relation of the log times of earlier payloads in the other partitions: of each
          partition the last one before the new payloads, and all behind that; none if there are
          none.
#}
with payloads as (
    select
        topic,
        partition,
        offset,
        timestamp
    from {{ payloads }}
),

{% if earlier %}
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

{% endif %}
{% if given %}
given as (
    {{ given | indent }}
),

{% endif %}
timeline as (
    select
        topic,
        partition,
        offset,
        timestamp as seen,
        timestamp,
        cast(null as timestamp) as given_log_time
    from payloads
    {% if given %}
    union all
    select
        topic,
        partition,
        offset,
        given_log_time as seen,
        cast(null as timestamp) as timestamp,
        given_log_time
    from given
    {% endif %}
),

log_times as (
    select
        topic,
        partition,
        offset,
        timestamp,
        given_log_time,
        {{ 'least(' if earlier }}max(seen) over (
            partition by topic, partition
            order by offset
            rows between unbounded preceding and current row
        )
        {%- if earlier %},
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
