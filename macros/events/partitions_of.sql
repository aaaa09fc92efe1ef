{#
  The partitions that new payloads have come from, asked for once: a list of

      name            topic and partition, as JSON
      topic, partition
      format          of the topic, by `vars.topics`; none for no match
      first_offset, last_offset
      newest          the newest timestamp in microseconds, or none

  or none where nothing is built, or nothing is new.

  Arguments:
      payloads: the new rows of bronze, as new_rows gives them.
#}
{% macro partitions_of(payloads) %}
    {% if not is_building() or model.resource_type == 'unit_test'
        or (is_incremental() and not has_news()) %}
        {% do return(none) %}
    {% endif %}
    {% set partitions = [] %}
    {% for name, format, first_offset, last_offset, newest in run_query(
        'select to_json(struct(topic, partition)), ' ~ payload_format('topic')
        ~ ', min(offset), max(offset), unix_micros(max(timestamp)) from ' ~ payloads
        ~ ' group by topic, partition'
    ) %}
        {% set named = fromjson(name) %}
        {% do partitions.append({
            'name': name, 'topic': named.topic, 'partition': named.partition, 'format': format,
            'first_offset': first_offset, 'last_offset': last_offset, 'newest': newest
        }) %}
    {% endfor %}
    {% do return(partitions or none) %}
{% endmacro %}
