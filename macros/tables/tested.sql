{#
  The rows of an append-only table that its tests look at: those that this command has added to it,
  or all of them where it has not, as in `dbt test`.

  Arguments:
      relation: the table.
#}
{% macro added_rows(relation) %}
    {% do return((adapter.added_rows(relation) if execute) or relation) %}
{% endmacro %}

{#
  The events that a change log's tests look at: those that this command has read for it, or all that
  it has ever read.

  Arguments:
      model: the log.
      log: its declaration.
#}
{% macro events_to_test(model, log) %}
    {% set of = adapter.log_to_look_at(model, log) %}
    {% do return(dbt.events_of_log(of.run, log, of.part)) %}
{% endmacro %}

{#
  Where events are that other_events has looked at, those of this command or all of them, to select
  from: topic, partition, offset and event_index, and in which table (`place`), of its own rows, of
  those of change logs, and of what logs have not read yet. An Aerospike delete without a set may
  be in a log too (`is_shared`).

  Arguments:
      relation: other_events.
      payloads: the payloads that it has looked at.
#}
{% macro events_in_place(relation, payloads) %}
    {% if not execute %}
        {% do return(relation) %}
    {% endif %}
    {#- Pinned: beside the rows of a range of snapshots, Spark takes a table's name for those. #}
    {% set event = 'topic, partition, offset, event_index' %}
    {% set own = [
        'select ' ~ event ~ ", 'other_events' as place,"
        ~ " (operation = 'delete' and source_table is null) or " ~ adapter.events_to_give(relation)
        ~ ' as is_shared'
        ~ ' from ' ~ (adapter.added_rows(relation) or dbt.pinned(relation))
        ~ " where added_by is null or added_by = 'redrive'"
    ] %}
    {% set of_logs = [] %}
    {% for each in adapter.logs_to_look_at() %}
        {% set place = dbt.sql_text(each.relation | string) ~ ' as place, false as is_shared' %}
        {#- The rows of one that is to be made anew don't count. #}
        {% if each.is_there and each.run.is_incremental %}
            {% do of_logs.append(
                'select _position.topic, _position.partition, _position.offset,'
                ~ ' _position.event_index, ' ~ place ~ ' from ' ~ dbt.added_rows(each.relation)
            ) %}
        {% endif %}
        {% if each.run.has_news %}
            {% do of_logs.append(
                'select ' ~ event ~ ', ' ~ place
                ~ ' from ' ~ dbt.events_of_log(each.run, each.log)
            ) %}
        {% endif %}
    {% endfor %}
    {% if of_logs %}
        {# What logs have from other_events is there. #}
        {% do own.append(
            'select * from (' ~ of_logs | join(' union all ') ~ ') left anti join (select ' ~ event
            ~ ' from ' ~ dbt.pinned(relation) ~ ' where added_by is not null) using (' ~ event ~ ')'
        ) %}
    {% endif %}
    {% set all = '(' ~ own | join(' union all ') ~ ')' %}
    {# A log that was made anew in this command has all of its rows. #}
    {% if not adapter.run_to_test(relation) %}
        {% do return(all) %}
    {% endif %}
    {% do return(
        '(select * from ' ~ all ~ ' left semi join ' ~ payloads
        ~ ' using (topic, partition, offset))'
    ) %}
{% endmacro %}

{#
  A condition that holds for all rows with the positions of some others: what spares a look at the
  files without any. Literals, for Spark passes over files by nothing else.

  Arguments:
      rows: a relation with topic, partition and offset, of which few are expected.
      parent: the struct in which the rows that are looked for have theirs, with a point; none for
          columns of their own.
#}
{% macro is_near_positions(rows, parent='') %}
    {% do return(adapter.near_positions(rows, parent)) %}
{% endmacro %}
