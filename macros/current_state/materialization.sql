{#
  A gold table of current state (macros/current_state/current_state.sql). A rebuild folds the whole
  log (rebuild.sql). An incremental run

      1. folds the new events of the log, one state for each key: most keys are settled by that;
      2. where something that is known may make a difference (dbt_lakehouse/dbt/fold.py: late
         events, expired rows, deletes without a set, truncates, columns that are declared later),
         folds once more, with what is known of those keys: gold rows, or remembered states;
         keys with an event that belongs before what is known are folded from their whole log
         (look_up.sql);
      3. remembers the keys that end absent in `deleted_keys`, and only then
      4. merges the states into gold; what was read is committed with them.

  Each step can be repeated: a crash between any two loses nothing. The SQL that folds is the
  model's own; the view that it selects events from is defined here.
#}
{% materialization current_state, adapter='lakehouse', supported_languages=['sql'] -%}
    {%- set run = adapter.run_of(this) -%}
    {%- set fold = run.fold -%}
    {{ run_hooks(pre_hooks) }}
    {%- do adapter.check_contract(
        model, fold, fold.rows_columns if fold.keyless else fold.gold_columns
    ) -%}
    {%- do dbt.prepare_table() -%}
    {%- do dbt.refuse_earlier_moment(run) -%}
    {%- if not run.is_incremental -%}
        {%- do dbt.refuse_loss(run) -%}
    {%- endif -%}
    {%- if fold.keyless -%}
        {%- do dbt.refold(run, fold) -%}
    {%- elif run.is_incremental -%}
        {%- do dbt._merge_new_events(run, fold) -%}
    {%- else -%}
        {%- do dbt._rebuild(run, fold) -%}
    {%- endif -%}
    {%- do adapter.drop_evaluated(dbt.view_of('')) -%}
    {%- set doubt = adapter.doubt_of_rows(this, fold) -%}
    {%- if doubt -%}
        {%- do exceptions.warn(doubt) -%}
    {%- endif -%}
    {%- do persist_docs(this, model) -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [this]}) }}
{%- endmaterialization %}

{# An expired row is gone from gold, so judging it at an earlier moment takes a rebuild. #}
{% macro refuse_earlier_moment(run) %}
    {% set last = run.noted('lakehouse.as_of') if run.fold.namespace %}
    {% if last and dbt.as_of_text() < last %}
        {% do exceptions.raise_compiler_error(
            'vars.as_of is ' ~ dbt.as_of_text() ~ ', but ' ~ this ~ ' has been built as of ' ~ last
            ~ ': rows that expired in between can only come back with --full-refresh'
        ) %}
    {% endif %}
{% endmacro %}

{# The columns of the gold table, of the model's SQL. #}
{% macro gold_rows_sql(fold) -%}
    select {{ fold.gold_columns | join(', ') }} from ({{ sql }}) where _live
{%- endmacro %}

{% macro _merge_new_events(run, fold) %}
    {% set log, deleted_keys = run.upstreams %}
    {% set has_new_events = run.has_news_of(log) %}
    {% set remembered = dbt.pinned(deleted_keys, run.snapshot_of(deleted_keys)) %}
    {% set has_new_deletes = dbt._has_new_deletes(run, fold, remembered) %}
    {% set hit_by_others = dbt._hit_by_others(run, fold, remembered, has_new_deletes) %}
    {% set resting = dbt.keys_with_values_of_others(run, fold) %}
    {% if not has_new_events and not run.is_declared_anew
        and not (resting and dbt.is_not_empty('(' ~ resting ~ ')'))
        and not (hit_by_others and dbt.is_not_empty('(' ~ hit_by_others ~ ')')) %}
        {% if has_new_deletes %}
            {# It has seen them: they would be kept for it for good. #}
            {% do adapter.note(this) %}
        {% endif %}
        {% do dbt.nothing_to_do() %}
        {% do return(none) %}
    {% endif %}
    {% do adapter.define(dbt.view_of('events'), dbt.new_events_sql(run, fold)) %}
    {% set truncates = dbt.find_truncates(run, fold, run.rows(log), remembered)
        if dbt.may_meet_truncates(run, fold) else [] %}
    {% if run.is_declared_anew %}
        {% do adapter.follow_schema(this, dbt.gold_rows_sql(fold)) %}
    {% endif %}
    {% do dbt.remember_truncates(deleted_keys, truncates) %}
    {% for each in truncates if each.is_new and not fold.several_sources %}
        {% do adapter.change(this, 'delete from ' ~ this ~ ' where _position < ' ~ each.position) %}
    {% endfor %}

    {% set states = dbt.view_of('states') %}
    {% set newest_known = run.newest %}
    {% set horizon = adapter.look_at_table(deleted_keys).noted('lakehouse.purge_horizon') %}
    {% set is_late = dbt.possibly_late_sql(newest_known, horizon) %}
    {% if fold.several_sources and truncates %}
        {# Which rows a truncate takes away is a matter of where they are from. #}
        {% set is_late = '(' ~ is_late ~ ' or _first_position < (select max(_position) from '
            ~ dbt.view_of('truncates') ~ '))' %}
    {% endif %}
    {% set found = none %}
    {% if has_new_events %}
        {% do adapter.evaluate(states, sql) %}
        {% set found = adapter.summary(states, fold, dbt.as_of(), is_late) %}
        {% do adapter.keep_doubts(this, found) %}
    {% endif %}
    {% set plan = adapter.plan_fold(
        run, found, truncates, hit_by_others is not none, resting is not none,
        fold.namespace and adapter.may_have_rows(
            deleted_keys, [('scope', '=', 'aerospike:' ~ fold.namespace)]
        )
    ) %}
    {% set counts = {
        'new_events': found.events if found else 0,
        'clock_ahead_events': found.clock_ahead if found else 0,
        'refolded_keys': 0,
        'keys_beyond_log': 0,
        'late_after_purge': 0,
    } %}
    {% if plan.looks_up %}
        {% do counts.update(dbt.look_up(
            run, fold, found, plan, truncates, remembered, hit_by_others, resting, is_late, horizon
        )) %}
        {% do adapter.evaluate(states, sql) %}
        {% set found = adapter.summary(states, fold, dbt.as_of(), 'false') %}
    {% endif %}
    {% set refolded = counts.refolded_keys > 0 %}
    {% if found.absent > 0 or (refolded and found.keys > 0) %}
        {% do dbt.remember_absent_keys(fold, deleted_keys, states, refolded) %}
    {% endif %}
    {% set ranges = adapter.hold_key_ranges(dbt.view_of('merge'), found) %}
    {% set merge = dbt._merge_states_sql(
        run, fold, states, dbt.is_in_key_ranges('target.' ~ fold.key[0], ranges),
        refolded, truncates | length > 0
    ) %}
    {% set newest = newest_known or dbt.newest_of_table(deleted_keys) %}
    {{ write(merge) }}
    {% do dbt.record_result(adapter.write_table(this, merge, {
        'lakehouse.as_of': dbt.as_of_text(),
        'lakehouse.newest': newest.and_those(found.log_time, found.time),
    })) %}
    {% do dbt.add_counters(dbt.table_scope(this), dict(counts,
        touched_keys=found.keys,
        late_events=found.late_events,
        expired_keys=found.expired
    )) %}
    {% do dbt.log_info(
        this ~ ': ' ~ counts.new_events ~ ' new events, '
        ~ ('a truncate, ' if truncates | selectattr('is_new') | list else '')
        ~ found.keys ~ ' keys touched, '
        ~ found.late_events ~ ' late events rejected, '
        ~ counts.refolded_keys ~ ' keys refolded from the log'
    ) %}
{% endmacro %}

{#
  The log's new events, those of most runs in one partition: then all of the fold is one task, and
  shuffles nothing.
#}
{% macro new_events_sql(run, fold) -%}
    {%- set events = dbt.log_events_sql(fold, run.rows(run.upstreams[0])) -%}
    {%- if run.is_small -%}
    select /*+ coalesce(1) */ * from ({{ events }})
    {%- else -%}
    {{ events }}
    {%- endif -%}
{%- endmacro %}

{#
  SQL of the keys with a row that has expired, or that a new delete without a set hits; none if what
  is known of the files says that there are none. Only tables of a namespace.
#}
{% macro _hit_by_others(run, fold, remembered, has_new_deletes) %}
    {% if not fold.namespace %}
        {% do return(none) %}
    {% endif %}
    {% set keys = [] %}
    {% if adapter.may_have_rows(this, [('_expires_at', '<=', dbt.as_of_text())]) %}
        {% do keys.append(
            'select _digest from ' ~ dbt.pinned(this) ~ ' where _expires_at <= ' ~ dbt.as_of()
        ) %}
    {% endif %}
    {% if has_new_deletes %}
        {% do keys.append(
            'select _digest from ' ~ dbt.pinned(this) ~ ' left semi join (select _digest from ('
            ~ dbt.remembered_deletes_sql(run, fold, remembered) ~ ') where _is_new) using (_digest)'
        ) %}
    {% endif %}
    {% do return(keys | join(' union ') if keys else none) %}
{% endmacro %}

{# Whether there is a delete without a set that the table has not read, be it of its keys or not. #}
{% macro _has_new_deletes(run, fold, remembered) %}
    {% set deleted_keys = run.upstreams[1] %}
    {% do return(
        fold.namespace
        and adapter.may_have_rows(
            deleted_keys,
            [('scope', '=', 'aerospike:' ~ fold.namespace)],
            since=run.sequence_read(deleted_keys)
        )
        and dbt.is_not_empty(
            '(' ~ dbt.remembered_deletes_sql(run, fold, remembered) ~ ') where _is_new'
        )
    ) %}
{% endmacro %}

{#
  Deletes what is absent, updates what has changed, inserts what is live and new;
  all else stays untouched.

  Arguments:
      is_near: SQL over target that holds for all rows with one of the states' keys.
      refolded: whether keys were folded from their whole log: then columns can change though the
          last event is the same.
      truncated: whether the log has a truncate: its time counts for the rows behind it.
#}
{% macro _merge_states_sql(run, fold, states, is_near, refolded, truncated) -%}
    {%- set is_changed -%}
        {%- if refolded -%}
        {{ 'not source._is_state and ' if not run.leaves }}(
            target._position <> source._position
            or not target._max_occurred_at <=> source._max_occurred_at
            {%- if fold.columns %}
            or {{ dbt.columns_differ(fold.columns) }}
            {%- endif %}
        )
        {%- else -%}
        {#- Of the table's columns only the key, if possible: Spark shuffles all rows that are near,
            and reads a struct value by value. -#}
        not source._is_state
        {%- if run.leaves and truncated %}
        or not target._max_occurred_at <=> source._max_occurred_at
        {%- endif %}
        {%- endif -%}
    {%- endset -%}
    {{ dbt.merge_rows_sql(states, fold.key, fold.gold_columns, '_live', is_changed, is_near) }}
{%- endmacro %}

{# The newest of all that is known of the running model's keys, as of fold.Newest. #}
{% macro newest_of_table(deleted_keys) %}
    {% set found = run_query('
        select unix_micros(max(position.log_time)), unix_micros(max(time)) from (
            select _position as position, _max_occurred_at as time from ' ~ this ~ '
            union all
            select position, max_occurred_at from ' ~ deleted_keys ~ '
            where scope in (' ~ dbt.table_scope(this) ~ ', ' ~ dbt.truncate_scope(this) ~ ')
        )
    ')[0] %}
    {% do return(adapter.newest(found[0], found[1])) %}
{% endmacro %}
