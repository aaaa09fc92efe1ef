{#
  The partitions that new payloads have come from, asked for once: a list of

      name            topic and partition, as JSON
      topic, partition
      first_offset, last_offset
      oldest, newest  the timestamps at the ends in microseconds, or none
      landed_at       when the first of them has landed, in microseconds
      goes_back       whether a timestamp is missing, or lies behind that of an earlier offset

  or none where nothing is built, or nothing is new.

  Arguments:
      payloads: the new rows of bronze, as new_rows gives them.
#}
{% macro partitions_of(payloads) %}
    {% if not dbt.is_building() or not adapter.run_of(this).has_news %}
        {% do return(none) %}
    {% endif %}
    {% set hint = '/*+ coalesce(1) */' if adapter.run_of(this).is_small else '' %}
    {% set partitions = [] %}
    {% for name, first_offset, last_offset, oldest, newest, landed_at, goes_back in run_query('
        select
            to_json(struct(topic, partition)),
            min(offset),
            max(offset),
            unix_micros(min(timestamp)),
            unix_micros(max(timestamp)),
            unix_micros(min(landed_at)),
            bool_or(timestamp is null or timestamp < _newest_before)
        from (
            select
                topic,
                partition,
                offset,
                timestamp,
                landed_at,
                max(timestamp) over (
                    partition by topic, partition
                    order by offset
                    rows between unbounded preceding and 1 preceding
                ) as _newest_before
            from (
                select ' ~ hint ~ ' topic, partition, offset, timestamp, landed_at
                from ' ~ payloads ~ '
            )
        )
        group by topic, partition
    ') %}
        {% set named = fromjson(name) %}
        {% do partitions.append({
            'name': name, 'topic': named.topic, 'partition': named.partition,
            'first_offset': first_offset, 'last_offset': last_offset,
            'oldest': oldest, 'newest': newest, 'landed_at': landed_at, 'goes_back': goes_back
        }) %}
    {% endfor %}
    {% do return(partitions or none) %}
{% endmacro %}
