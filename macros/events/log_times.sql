{#
  The log times that earlier runs have given to the partitions of new payloads, without a look at the log itself: the
  property `lakehouse.log_times` of change_events has the last offset of each partition and its log time.

  Returns a list of {topic, partition, log_time}, each as SQL, for the partitions that have one; or none where only the
  log can tell: payloads lie before offsets that came earlier, or there are too many partitions for a property.

  Arguments:
      payloads: the new rows of bronze, as new_rows gives them.
#}
{% macro carried_log_times(payloads) %}
    {% if not is_building() or model.resource_type == 'unit_test' %}
        {% do return(none) %}
    {% elif is_incremental() and not has_news() %}
        {# There are no payloads. #}
        {% do return([]) %}
    {% endif %}
    {% set held = _properties(this).get('lakehouse.log_times', '') if is_incremental() else '{}' %}
    {% set notes = adapter.noted_properties(this) %}
    {% if held == 'too many partitions' %}
        {% do notes.update({'lakehouse.log_times': held}) %}
        {% do return(none) %}
    {% endif %}
    {% set known = fromjson(held) if held else _log_times_of_log() %}
    {% set carried, unordered = [], [] %}
    {% for partition, first_offset, last_offset, newest in run_query(
        'select to_json(struct(topic, partition)), min(offset), max(offset), unix_micros(max(timestamp)) from '
        ~ payloads ~ ' group by topic, partition'
    ) %}
        {% set times = [newest] %}
        {% if partition in known %}
            {% set offset, log_time = known[partition] %}
            {% if first_offset <= offset %}
                {% do unordered.append(partition) %}
            {% endif %}
            {% do times.append(log_time) %}
            {% set named = fromjson(partition) %}
            {% do carried.append({
                'topic': sql_text(named.topic), 'partition': named.partition, 'log_time': _moment(log_time)
            }) %}
        {% endif %}
        {% set times = times | reject('none') | map('int') | list %}
        {% do known.update({partition: [last_offset | int, times | max if times else none]}) %}
    {% endfor %}
    {% set is_too_long = known | length > 1000 %}
    {% do notes.update({
        'lakehouse.log_times': 'too many partitions' if is_too_long else '' if unordered else tojson(known)
    }) %}
    {% do return(none if is_too_long or unordered else carried) %}
{% endmacro %}

{# What the log says of its partitions: {partition: [last offset, its log time in microseconds]}. #}
{% macro _log_times_of_log() %}
    {% set known = {} %}
    {% for partition, offset, log_time in run_query(
        'select to_json(struct(topic, partition)), max(offset), unix_micros(max_by(log_time, offset)) from ' ~ this
        ~ ' group by topic, partition'
    ) %}
        {% do known.update({partition: [offset | int, none if log_time is none else log_time | int]}) %}
    {% endfor %}
    {% do return(known) %}
{% endmacro %}
