{#
  other_events: looks at each new payload once, and keeps the events that no change log takes
  (dbt_lakehouse/dbt/taken.py). Its commits say how far bronze was looked at and what was there, so
  change logs read bronze as far as it has, and only where there is something for them. It is
  append-only but for what logs that are declared later take out of it.
#}
{% materialization other_events, adapter='lakehouse', supported_languages=['sql'] -%}
    {%- set run = adapter.run_of(this) -%}
    {{ run_hooks(pre_hooks) }}
    {%- do dbt.prepare_table() -%}
    {%- set before = adapter.events_before(this) -%}
    {%- set change = adapter.changed_logs(this) -%}
    {%- if not run.is_incremental and before is not none -%}
        {%- do dbt.move_events(before) -%}
    {%- elif not run.is_incremental -%}
        {%- do dbt.refuse_loss(run) -%}
        {%- do adapter.keep_log_times(this, dbt.view_of('corrections')) -%}
        {%- do dbt.replace_table(dbt._observed_untaken(sql), adapter.looking()) -%}
    {%- else -%}
        {%- do dbt.follow_logs(run, change) -%}
        {%- if not run.has_news and change is none -%}
            {%- do dbt.nothing_to_do() -%}
        {%- elif not adapter.has_payloads(this) -%}
            {%- do adapter.note(this) -%}
            {%- do dbt.record_result('nothing new') -%}
        {%- else -%}
            {%- do adapter.keep_log_times(this, dbt.view_of('corrections')) -%}
            {%- do dbt.append_rows(dbt._observed_untaken(sql), adapter.looking()) -%}
        {%- endif -%}
    {%- endif -%}
    {%- do dbt.judge_tombstones() -%}
    {%- do persist_docs(this, model) -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [this]}) }}
{%- endmaterialization %}

{#
  Makes other_events of what change_events has that no log takes (dbt_lakehouse/dbt/moving.py).

  Arguments:
      before: change_events, as it is to be read.
#}
{% macro move_events(before) %}
    {% do adapter.move_log_times(this, before) %}
    {% set now = adapter.taken_events().condition %}
    {% set is_judged = "metadata <=> '{\"compacted\":true}'" %}
    {% set query %}
        select
            {{ dbt._event_columns() | join(', ') }},
            if({{ is_judged }}, 'tombstone', null) as added_by,
            {{ now }} and not {{ is_judged }} as is_taken,
            1 as events
        from {{ before }}
    {% endset %}
    {% do dbt.replace_table(dbt._observed_untaken(query), adapter.moving(this)) %}
    {% do dbt.log_info(
        this ~ ' has taken over what no change log takes of ' ~ adapter.name_before(this)
        ~ ', which nothing reads any more: `dbt run-operation drop_change_events` frees its space'
    ) %}
{% endmacro %}

{# What is counted is counted of all events, of which a row may stand for many. #}
{% macro _observed_untaken(query) %}
    {% do return(
        'select * except (is_taken, events) from ('
        ~ adapter.observed(this, query, adapter.news_aggregates('events')) ~ ') where not is_taken'
    ) %}
{% endmacro %}

{#
  The events of new payloads, to select from. Of those that change logs take whatever they say
  (`is_taken`) there is no row each: `events` tells how many a row stands for, of the same topic,
  table and operation.

  Arguments:
      payloads: as of decoded_events.
      partitions: as of partitions_of, of these payloads; none to hold each payload's topic against
          the patterns.
#}
{% macro looked_events(payloads, partitions) -%}
    {%- set format = adapter.format_of(this, partitions) if partitions else dbt.payload_format() -%}
    {%- set payloads = '(select *, ' ~ format ~ ' as format from ' ~ payloads ~ ')' -%}
    {%- set look = adapter.look_function(dbt.know_schemas_of(payloads, format)) -%}
    {%- set fields = dbt._event_fields() + ['is_taken', 'events'] -%}
    {{ dbt.events_in(payloads, format, look, fields, of_topic=true) }}
{%- endmacro %}

{# Whether a change log takes an event of `looked_events` that has its log time. #}
{% macro is_taken() -%}
    {%- set others = adapter.taken_events().others -%}
    is_taken{{ ' or ' ~ others if others != 'false' }}
{%- endmacro %}

{#
  Brings the rows of other_events up to what the project's change logs take by now: what a log takes
  that was declared since goes, and what one took that is not there any more comes from bronze.

  In one commit, which notes what they were brought up to: between two, nothing would tell which
  events are where.

  Arguments:
      run: the NodeRun.
      change: what logs take otherwise, as adapter.changed_logs gives it.
#}
{% macro follow_logs(run, change) %}
    {% if change is none %}
        {% do return(none) %}
    {% endif %}
    {% set now = adapter.taken_events().condition %}
    {% set columns = dbt._event_columns() %}
    {% set comes, leaves = change.come != 'false', change.left != 'false' %}
    {% if not comes and not leaves %}
        {% do return(none) %}
    {% endif %}
    {% set is_taken = 'added_by is null and ' ~ now %}
    {% if not leaves %}
        {% set statement = 'delete from ' ~ this ~ ' where ' ~ is_taken %}
    {% else %}
        {% set left = 'select ' ~ columns | join(', ') ~ ' from ' ~ dbt.events_of(
            adapter.bronze_input(run, none), [], ['(' ~ change.left ~ ')', 'not (' ~ now ~ ')']
        ) %}
        {% set statement %}
            merge into {{ this }} as target
            using ({{ left }}) as source
            on
                target.topic = source.topic
                and target.partition = source.partition
                and target.offset = source.offset
                and target.event_index = source.event_index
            when not matched then
                insert ({{ columns | join(', ') }})
                values (source.{{ columns | join(', source.') }})
            {% if comes %}
            when not matched by source and {{ is_taken }} then delete
            {% endif %}
        {% endset %}
    {% endif %}
    {% do adapter.change(this, statement, adapter.taken_events().notes) %}
{% endmacro %}
