{#
  The topics of which nothing but tombstones could be decoded, but for those of
  vars.undecoded_topics, with their numbers of payloads, as SQL of a relation. In a command that
  tests, each is told by its name: dbt itself says only how many there are.

  Arguments:
      events: other_events.
      quarantined: quarantined_payloads.
#}
{% macro undecoded_topics(events, quarantined) %}
    {% set topics %}
        select topic, count(distinct partition, offset) as payloads
        from {{ quarantined }}
        where
            topic not in (
                select topic from {{ events }} where operation not in ('invalid', 'tombstone')
            )
            {%- for topic in adapter.topics_with_changes(events) if execute %}
            and topic <> {{ dbt.sql_text(topic) }}
            {%- endfor %}
            {%- for topic in var('undecoded_topics', none) or [] %}
            and topic <> {{ dbt.sql_text(topic) }}
            {%- endfor %}
        group by topic
    {% endset %}
    {% if not execute or flags.WHICH not in ['test', 'build', 'retry'] %}
        {% do return('(' ~ topics ~ ')') %}
    {% endif %}
    {% set undecoded = [] %}
    {% for row in run_query(topics ~ ' order by topic') %}
        {% do undecoded.append('(' ~ dbt.sql_text(row.topic) ~ ', ' ~ row.payloads ~ ')') %}
        {% do exceptions.warn(
            'topic ' ~ row.topic ~ ': nothing of it could be decoded, ' ~ row.payloads
            ~ (' payload is' if row.payloads == 1 else ' payloads are')
            ~ ' quarantined. `lakehouse quarantine` says why; is its format in'
            ~ ' vars.topics right? vars.undecoded_topics names those that nobody misses'
        ) %}
    {% endfor %}
    {# Found once: a test is asked twice otherwise. #}
    {% set rows = 'values ' ~ undecoded | join(', ') ~ ' as found (topic, payloads)' %}
    {% do return('(select * from ' ~ rows ~ ')' if undecoded else '(' ~ topics ~ ' limit 0)') %}
{% endmacro %}
