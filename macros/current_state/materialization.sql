{#
  Brings a gold table up to date with its change log: the `current_state` strategy of the
  incremental materialization.

  A rebuild folds the whole log (rebuild_current_state.sql). An incremental run
      0. empties the table of what lies before a new truncate, which `deleted_keys` remembers for
         the table as a whole;
      1. takes the log's new events;
      2. adds what is known of the keys that are unsettled (gold rows, or remembered states in
         `deleted_keys`): those with an event that is not newer than all that is known of any key,
         those that a new delete without a set hits or that have expired, and those behind a
         truncate that comes late. All other keys are what their new events make them;
      3. folds; keys with an event that belongs before what is known are folded from their whole log
         instead (the SQL of 2 and 3 is in events_to_fold.sql);
      4. remembers the keys that end absent in `deleted_keys`, and only then
      5. merges the states into gold.
  Each step can be repeated: a crash between any two loses nothing. The small inputs are evaluated
  views, not CTEs: inlined into one statement, planning alone took longer than all the work.

  Arguments:
      staged: the name for a temporary view, whose name begins those of the other ones.
      incremental: whether this is an incremental run.
#}
{% macro build_current_state(staged, incremental) %}
    {% set fold = config.get('meta').fold %}
    {% set changes = ref(model.refs[0].name) %}
    {% set deleted_keys = ref('deleted_keys') %}
    {% set deletes = ref('set_less_deletes') if fold.namespace %}
    {% do _check_as_of(incremental) %}
    {# Without a namespace only the identity counts: whether the remembered states are still those
       of this table. #}
    {% set memory = _table_state(deleted_keys) %}
    {% do _note_read(
        deleted_keys, memory if fold.namespace else dict(memory, snapshot='any', sequence=0)
    ) %}
    {% if incremental %}
        {% do _merge_new_events(
            fold, changes, deleted_keys, _pinned(deleted_keys, memory), deletes, staged
        ) %}
        {% if has_news() or fold.namespace %}
            {% do save_watermarks({'lakehouse.as_of': as_of_text()}) %}
        {% endif %}
    {% else %}
        {% do _rebuild_current_state(fold, _as_noted(changes), deleted_keys, deletes, staged) %}
    {% endif %}
{% endmacro %}

{# Brings gold's columns up to those of its change log; as follow_schema. #}
{% macro _follow_log(fold, changes, staged) %}
    {% set gold_columns %}
        select
            {{ (fold.key + fold.columns) | join(', ') }},
            _occurred_at,
            _occurred_at as _max_occurred_at,
            _position
            {{- ', _expires_at' if fold.namespace }}
        from {{ changes }}
        where false
    {% endset %}
    {% do return(follow_schema_of(staged, gold_columns)) %}
{% endmacro %}

{# An expired row is gone from gold, so judging it at an earlier moment takes a rebuild. #}
{% macro _check_as_of(incremental) %}
    {% set last = _properties(this).get('lakehouse.as_of') if incremental %}
    {% if last and as_of_text() < last %}
        {% do exceptions.raise_compiler_error(
            'vars.as_of is ' ~ as_of_text() ~ ', but ' ~ this ~ ' has been built as of ' ~ last
            ~ ': rows that expired in between can only come back with --full-refresh'
        ) %}
    {% endif %}
{% endmacro %}

{#
  Arguments, besides those of build_current_state:
      remembered: `deleted_keys` as it is to be read.
#}
{% macro _merge_new_events(fold, changes, deleted_keys, remembered, deletes, staged) %}
    {% set name = staged.identifier ~ '__' %}
    {% set new_log_rows = new_rows(changes) %}
    {% set has_new_events = has_news(changes) %}
    {% set truncation = _newest_truncate(fold, new_log_rows, remembered) if has_new_events %}
    {% if truncation and truncation.is_new %}
        {% do _remember_truncate(deleted_keys, truncation) %}
        {% do run_query('delete from ' ~ this ~ ' where _position < ' ~ truncation.position) %}
    {% endif %}
    {% set last_read = _marks()[deleted_keys.schema ~ '.' ~ deleted_keys.identifier].sequence %}
    {% set remembered_deletes = _remembered_deletes(fold, remembered, last_read)
        if fold.namespace %}

    {% set to_fill = _follow_log(fold, changes, staged)
        if has_new_events or has_new_declaration() else {} %}
    {% set gold = pinned_self(to_fill) %}
    {# Only tables of a namespace. What is known of the files comes first: it takes no query. #}
    {% set hit_by_others %}
        select _digest from {{ gold }} where _expires_at <= {{ as_of() }}
        union
        select _digest from {{ gold }}
        left semi join (
            select _digest from ({{ remembered_deletes }}) where _is_new
        ) using (_digest)
    {% endset %}
    {% set may_be_hit = fold.namespace and (
        _table_state(deleted_keys).sequence > last_read
        or adapter.may_have_rows(this, [('_expires_at', '<=', as_of_text())])
    ) %}
    {% if not has_new_events and not to_fill
        and not (may_be_hit and count_rows('(' ~ hit_by_others ~ ')') > 0) %}
        {% call noop_statement('main', 'no key is touched') %}
            -- no key is touched
        {% endcall %}
        {% do return(none) %}
    {% endif %}

    {% do evaluate(name ~ 'new_events', _new_events(fold, changes, new_log_rows)) %}
    {% set has_late_truncate = truncation and truncation.is_new and _evaluate_behind_truncate(
        name, fold, _as_noted(changes), gold, remembered, truncation
    ) %}
    {% set refolded = [name ~ 'behind_truncate'] if has_late_truncate else [] %}
    {% if to_fill %}
        {% do evaluate(name ~ 'to_fill', keys_to_fill(fold, _as_noted(changes), to_fill)) %}
        {% do refolded.append(name ~ 'to_fill') %}
    {% endif %}

    {% set fills = _leaves_columns(fold, name ~ 'new_events') %}
    {% set horizon = purge_horizon(deleted_keys) %}
    {% set unsettled = _unsettled_keys(
        fold, name, fills, horizon, deleted_keys, remembered_deletes,
        hit_by_others if may_be_hit, refolded
    ) %}
    {# Most runs have none, and know without a shuffle. #}
    {% set unsettled_keys = 0 if not _is_not_empty('(' ~ unsettled ~ ')')
        else evaluate(name ~ 'unsettled', 'select distinct * from (' ~ unsettled ~ ')') %}
    {% set new_events, late_after_purge, misplaced_keys = name ~ 'new_events', 0, 0 %}
    {% if unsettled_keys > 0 %}
        {% set ranges = adapter.hold_key_ranges(name ~ 'known', name ~ 'unsettled', fold.key[0]) %}
        {% do evaluate(name ~ 'known', _known_states(
            fold, name, gold, remembered, ranges, fills, truncation
        )) %}
        {% if horizon %}
            {% set late_after_purge = evaluate(
                name ~ 'late_after_purge', _late_after_purge(fold, name, horizon)
            ) %}
            {% if late_after_purge > 0 and var('late_after_purge') == 'refuse' %}
                {% set new_events = _in_time_for_purge(fold, name) %}
            {% endif %}
        {% endif %}
        {% set misplaced_keys = evaluate(name ~ 'misplaced', _misplaced_keys(
            fold, name, new_events, remembered_deletes, horizon, refolded
        )) %}
    {% endif %}
    {% if misplaced_keys > 0 %}
        {% do evaluate(name ~ 'log', _log_events(
            fold, _as_noted(changes), _pinned(deletes) if deletes, keys=name ~ 'misplaced'
        )) %}
    {% endif %}
    {% set states %}
        with events as ({{ _events_to_fold(
            fold, name, new_events, remembered_deletes, unsettled_keys, misplaced_keys
        ) }}),
        {{ _fold_ctes(
            fold, truncation, fills or (misplaced_keys > 0 and _leaves_columns(fold, name ~ 'log'))
        ) }}
        select * from states
    {% endset %}
    {% do evaluate(name ~ 'states', states) %}
    {% if misplaced_keys > 0
        or count_rows('(select 1 from ' ~ name ~ 'states where not _live)') > 0 %}
        {% do _remember_absent_keys(
            fold, deleted_keys, name ~ 'states', refolded=misplaced_keys > 0
        ) %}
    {% endif %}
    {% set ranges = adapter.hold_key_ranges(name, name ~ 'states', fold.key[0]) %}
    {% call statement('main') %}
        {{ _merge_states_sql(
            fold, name ~ 'states', is_in_key_ranges('target.' ~ fold.key[0], name, ranges),
            refolded=misplaced_keys > 0, has_columns=fills, truncated=truncation
        ) }}
    {% endcall %}
    {% do _count_run(name, misplaced_keys, late_after_purge, fold.key | join(', '), deleted_keys) %}
    {% do forget_evaluated(name) %}
{% endmacro %}

{#
  New events that may belong before a state that was forgotten: of keys of which nothing is known.
#}
{% macro _late_after_purge(fold, name, horizon) -%}
select {{ fold.key | join(', ') }}, _position
from {{ name }}new_events
left anti join {{ name }}known using ({{ fold.key | join(', ') }})
where {{ _is_behind(horizon) }}
{%- endmacro %}

{# The other new events. #}
{% macro _in_time_for_purge(fold, name) -%}
    (
        select event.* from {{ name }}new_events as event
        left anti join {{ name }}late_after_purge as late
            on {% for column in fold.key %}event.{{ column }} = late.{{ column }} and {% endfor -%}
            event._position = late._position
    )
{%- endmacro %}

{#
  Whether an event lies behind the purge horizon; without a log time,
  it comes before all that have one.
#}
{% macro _is_behind(horizon) -%}
    (
        _position.log_time is null
        or _position.log_time <= timestamp '{{ horizon }}'
        or _guard_time <= timestamp '{{ horizon }}'
    )
{%- endmacro %}

{# Adds the run's row to `fold_counters`, notes what is newest now, and tells the user. #}
{% macro _count_run(name, misplaced_keys, late_after_purge, key_list, deleted_keys) %}
    {% set beyond_log = 0 if misplaced_keys == 0 else count_rows(
        '(select ' ~ key_list ~ ' from ' ~ name ~ 'misplaced'
        ~ ' left semi join ' ~ name ~ 'known using (' ~ key_list ~ ')'
        ~ ' left anti join (select ' ~ key_list ~ ', _position from ' ~ name ~ 'log'
        ~ ' left semi join ' ~ name ~ 'known using (' ~ key_list ~ ', _position))'
        ~ ' using (' ~ key_list ~ '))'
    ) %}
    {% set new, clock_ahead, touched, late, expired, log_time, time = run_query(
        'select * from (select count(*), count_if(_is_clock_ahead) from ' ~ name ~ 'new_events)'
        ~ ' cross join (select count(*), coalesce(sum(_late_events), 0),'
        ~ ' count_if(_expires_at <= ' ~ as_of() ~ '), '
        ~ _newest('_position', '_max_occurred_at') ~ ' from ' ~ name ~ 'states)'
    )[0] %}
    {% do add_counters(table_scope(this), {
        'new_events': new,
        'touched_keys': touched,
        'refolded_keys': misplaced_keys,
        'keys_beyond_log': beyond_log,
        'late_events': late,
        'clock_ahead_events': clock_ahead,
        'expired_keys': expired,
        'late_after_purge': late_after_purge,
    }) %}
    {% do _note_newest_known(log_time, time, deleted_keys) %}
    {% do log(
        this ~ ': ' ~ new ~ ' new events, ' ~ touched ~ ' keys touched, '
        ~ late ~ ' late events rejected, '
        ~ misplaced_keys ~ ' keys refolded from the log', info=true
    ) %}
{% endmacro %}

{# Whether an event of a log leaves columns as they were without saying their values. #}
{% macro _leaves_columns(fold, log) %}
    {% if fold.partial or fold.namespace %}
        {% do return(fold.partial) %}
    {% endif %}
    {% set found = run_query(
        'select 1 from ' ~ log ~ ' where size(_unchanged_columns) > 0 limit 1'
    ) %}
    {% do return(found | length > 0) %}
{% endmacro %}

{#
  Deletes what is absent, updates what has changed, inserts what is live and new;
  all else stays untouched.

  Arguments:
      is_near: SQL over target that holds for all rows with one of the states' keys.
      refolded: whether keys were folded from their whole log: then columns can change though the
          last event is the same.
      has_columns: whether states that were known before, and are not changed,
          have their value columns.
      truncated: the log's newest truncate, if it has one: its time counts for the rows behind it.
#}
{% macro _merge_states_sql(fold, states, is_near, refolded, has_columns, truncated) -%}
    {%- set is_changed -%}
        {%- if refolded -%}
        {{ 'not source._is_state and ' if not has_columns }}(
            target._position <> source._position
            or not target._max_occurred_at <=> source._max_occurred_at
            {%- if fold.columns %}
            or {{ columns_differ(fold.columns) }}
            {%- endif %}
        )
        {%- else -%}
        {#- Of the table's columns only the key, if possible: Spark shuffles all rows that are near,
            and reads a struct value by value. -#}
        not source._is_state
        {%- if has_columns and truncated %}
        or not target._max_occurred_at <=> source._max_occurred_at
        {%- endif %}
        {%- endif -%}
    {%- endset -%}
    {{ merge_rows_sql(states, fold.key, _gold_columns(fold), '_live', is_changed, is_near) }}
{%- endmacro %}
