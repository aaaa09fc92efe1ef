{#
  Brings a gold table up to date with its change log: the `current_state` strategy of the incremental materialization.

  A rebuild folds the whole log. An incremental run
      0. empties the table of what lies before a new truncate, which `deleted_keys` remembers for the table as a whole;
      1. takes the log's new events and the keys they touch, with the keys that a new delete without a set hits, those
         that have expired, and those behind a truncate that comes late;
      2. adds what is known of those keys: their gold rows, or their remembered states in `deleted_keys`;
      3. folds; keys with an event that belongs before what is known are folded from their whole log instead;
      4. remembers the keys that end absent in `deleted_keys`, and only then
      5. merges the states into gold.
  Each step can be repeated: a crash between any two loses nothing. The small inputs are cached relations, not CTEs:
  inlined into one statement, planning alone took longer than all the work.

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
    {# Without a namespace only the identity counts: whether the remembered states are still those of this table. #}
    {% set memory = _table_state(deleted_keys) %}
    {% do _note_read(deleted_keys, memory if fold.namespace else dict(memory, snapshot='any', sequence=0)) %}
    {% if incremental %}
        {% do _merge_new_events(fold, changes, deleted_keys, _pinned(deleted_keys, memory), deletes, staged) %}
        {% if has_news() or fold.namespace %}
            {% do save_watermarks({'lakehouse.as_of': as_of_text()}) %}
        {% endif %}
    {% else %}
        {% set log = _as_noted(changes) %}
        {% set truncation = _newest_truncate(fold, log, none) %}
        {% set folded %}
            with events as ({{ _log_events(fold, log, deletes) }}),
            {{ _fold_ctes(fold, truncation, fills=_leaves_columns(fold, log)) }}
        {% endset %}
        {% do _remember_truncate(deleted_keys, truncation) %}
        {% do _remember_absent_keys(fold, deleted_keys, '(' ~ folded ~ ' select * from states)', refolded=true) %}
        {% call statement('main') %}
            {{ create_table_as(
                false, this, folded ~ ' select ' ~ _gold_columns(fold) | join(', ') ~ ' from states where _live'
            ) }}
        {% endcall %}
        {% do save_watermarks({'lakehouse.as_of': as_of_text()}) %}
    {% endif %}
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

{# The log as far as the model's own SQL, compiled a moment ago, reads it. #}
{% macro _as_noted(relation) %}
    {% set mark = _read_marks()['lakehouse.read.' ~ relation.schema ~ '.' ~ relation.identifier] %}
    {% do return(_pinned(relation, {'snapshot': mark.split('|')[1]})) %}
{% endmacro %}

{#
  A table as it is now, to select from. Spark evaluates a cached relation anew when a table that it reads is written to
  in the same session, and this model writes to the tables it reads, as others do at the same time: only relations of
  fixed snapshots stay what they were.
#}
{% macro _pinned(relation, state=none) %}
    {% set snapshot = (state or _table_state(relation)).snapshot %}
    {# Not a subquery of the one with rows: that would hide the rows' sequence numbers. #}
    {% do return(
        '(select *, cast(null as bigint) as _last_updated_sequence_number from ' ~ relation ~ ' where false)'
        if snapshot == 'none' else relation ~ ' version as of ' ~ snapshot
    ) %}
{% endmacro %}

{#
  Arguments, besides those of build_current_state:
      remembered: `deleted_keys` as it is to be read.
#}
{% macro _merge_new_events(fold, changes, deleted_keys, remembered, deletes, staged) %}
    {% set key_list = fold.key | join(', ') %}
    {% set name = staged.identifier ~ '__' %}
    {% set cached = [] %}
    {% set new_log_rows = new_rows(changes) %}
    {% set has_new_events = has_news(changes) %}
    {% set truncation = _newest_truncate(fold, new_log_rows, remembered) if has_new_events %}
    {% if truncation and truncation.is_new %}
        {% do _remember_truncate(deleted_keys, truncation) %}
        {% do run_query('delete from ' ~ this ~ ' where _position < ' ~ truncation.position) %}
    {% endif %}
    {% set gold = _pinned(this) %}
    {% set last_read = _marks()[deleted_keys.schema ~ '.' ~ deleted_keys.identifier].sequence %}

    {# The namespace's deletes without a set, one or two events for each key, and whether they are new. #}
    {% if fold.namespace %}
        {% set remembered_deletes %}
            select
                get_json_object(record_key, '$.digest') as _digest,
                inline(filter(
                    array(
                        struct(max_occurred_at as _occurred_at, position as _position),
                        struct(cast(null as timestamp) as _occurred_at, null_position as _position)
                    ),
                    -- A state without any time has its position in both.
                    (event, i) -> event._position is not null and (event._occurred_at is not null or i = 1)
                )),
                _last_updated_sequence_number > {{ last_read }} as _is_new
            from {{ remembered }}
            where scope = {{ namespace_scope(sql_text(fold.namespace)) }}
        {% endset %}
    {% endif %}

    {% set hit_by_others %}
        select {{ key_list }} from {{ gold }} where {{ '_expires_at <= ' ~ as_of() if fold.namespace else 'false' }}
        {% if fold.namespace %}
        union
        select _digest from {{ gold }}
        left semi join (select _digest from ({{ remembered_deletes }}) where _is_new) using (_digest)
        {% endif %}
    {% endset %}
    {% if not has_new_events and (not fold.namespace or _count('(' ~ hit_by_others ~ ')') == 0) %}
        {% call statement('main') %}
            select 'no key is touched'
        {% endcall %}
        {% do return(none) %}
    {% endif %}
    {% do _cache(cached, name ~ 'new_events', _log_events(fold, new_log_rows, none)) %}
    {% set has_late_truncate = truncation and truncation.is_new
        and _cache_behind_truncate(cached, name, fold, _as_noted(changes), gold, remembered, truncation) %}
    {% set touched %}
        select {{ key_list }} from {{ name }}new_events
        union
        {{ hit_by_others }}
        {% if has_late_truncate %}
        union
        select {{ key_list }} from {{ name }}behind_truncate
        {% endif %}
    {% endset %}
    {% do _cache(cached, name ~ 'touched', touched) %}

    {# What is known of the touched keys: the gold row of a live one, the remembered state of an absent one. #}
    {% set known %}
        select
            {%- for column in fold.key %}
            touched.{{ column }},
            {%- endfor %}
            {%- for column in fold.columns %}
            gold.{{ column }},
            {%- endfor %}
            if(gold._position is null, 'delete', 'upsert') as _operation,
            gold._occurred_at,
            if(gold._position is null, absent.max_occurred_at, gold._max_occurred_at) as _guard_time,
            coalesce(gold._position, absent.position) as _position,
            {{ 'gold._expires_at' if fold.namespace else 'cast(null as timestamp) as _expires_at' }},
            true as _is_state,
            false as _is_clock_ahead,
            cast(null as array<string>) as _unchanged_columns
        from (select *, {{ record_key(fold.key) }} as _record_key from {{ name }}touched) as touched
        left join {{ gold }} as gold
            on {% for column in fold.key %}touched.{{ column }} = gold.{{ column }}{{ ' and ' if not loop.last }}{% endfor %}
        left join (select * from {{ remembered }} where scope = {{ table_scope(this) }}) as absent
            on gold._position is null and touched._record_key = absent.record_key
        where
            coalesce(gold._position, absent.position) is not null
            {%- if truncation %}
            and coalesce(gold._position, absent.position) > {{ truncation.position }}
            {%- endif %}
    {% endset %}
    {% do _cache(cached, name ~ 'known', known) %}

    {# Events that every later step takes as new: those of the log, and the namespace's deletes for the touched keys. #}
    {% set fresh %}
        select * from {{ name }}new_events
        {% if fold.namespace %}
        union all
        select
            _digest,
            {{ _no_columns(fold) }}
            'delete' as _operation,
            _occurred_at,
            _occurred_at as _guard_time,
            _position,
            cast(null as timestamp) as _expires_at,
            false as _is_state,
            false as _is_clock_ahead,
            cast(null as array<string>) as _unchanged_columns
        from ({{ remembered_deletes }})
        left semi join {{ name }}touched using (_digest)
        {% endif %}
    {% endset %}

    {# Keys with an event that belongs before what is known of them. #}
    {% set horizon = purge_horizon(deleted_keys) %}
    {% set misplaced %}
        select distinct {{ key_list }}
        from (
            select {{ key_list }}, _position, _guard_time from {{ name }}new_events
            {% if fold.namespace %}
            union all
            select _digest, _position, _occurred_at from ({{ remembered_deletes }}) where _is_new
            {% endif %}
        ) as fresh
        {{ 'inner' if not horizon else 'left' }} join (
            select {{ key_list }}, _position as _known_position from {{ name }}known
        ) using ({{ key_list }})
        left semi join {{ name }}touched using ({{ key_list }})
        where
            _position <= _known_position
            {%- if horizon %}
            or (
                _known_position is null
                and (
                    -- Without a log time, an event comes before all that have one.
                    _position.log_time is null
                    or _position.log_time <= timestamp '{{ horizon }}'
                    or _guard_time <= timestamp '{{ horizon }}'
                )
            )
            {%- endif %}
        {% if has_late_truncate %}
        union
        select {{ key_list }} from {{ name }}behind_truncate
        {% endif %}
    {% endset %}
    {% do _cache(cached, name ~ 'misplaced', misplaced) %}
    {% set misplaced_keys = _count(name ~ 'misplaced') %}

    {% set events %}
        {% if misplaced_keys == 0 %}
        select * from {{ name }}known
        union all
        {{ fresh }}
        {% else %}
        select * from {{ name }}known left anti join {{ name }}misplaced using ({{ key_list }})
        union all
        select * from ({{ fresh }}) left anti join {{ name }}misplaced using ({{ key_list }})
        union all
        select * from {{ name }}log
        -- Where the log doesn't reach back to what is known, that is the best there is.
        union all
        select * from {{ name }}known as known
        left semi join {{ name }}misplaced using ({{ key_list }})
        left anti join {{ name }}log as log
            on {% for column in fold.key %}log.{{ column }} = known.{{ column }} and {% endfor -%}
            log._position = known._position
        {% endif %}
    {% endset %}
    {% if misplaced_keys > 0 %}
        {% do _cache(cached, name ~ 'log', _log_events(
            fold, _as_noted(changes), _pinned(deletes) if deletes, keys=name ~ 'misplaced'
        )) %}
    {% endif %}
    {% set fills = _leaves_columns(fold, name ~ 'new_events')
        or (misplaced_keys > 0 and _leaves_columns(fold, name ~ 'log')) %}
    {% set states %}
        with events as ({{ events }}),
        {{ _fold_ctes(fold, truncation, fills) }}
        select * from states
    {% endset %}
    {% do _cache(cached, name ~ 'states', states) %}
    {% if misplaced_keys > 0 or _count('(select 1 from ' ~ name ~ 'states where not _live)') > 0 %}
        {% do _remember_absent_keys(fold, deleted_keys, name ~ 'states', refolded=misplaced_keys > 0) %}
    {% endif %}
    {% set staged_states %}
        select {{ _gold_columns(fold) | join(', ') }} from {{ name }}states
    {% endset %}
    {% call statement('stage') %}
        {{ create_temporary_view(staged, staged_states) }}
    {% endcall %}
    {% do follow_schema(staged) %}
    {% call statement('main') %}
        {{ _merge_states_sql(fold, name ~ 'states', refolded=misplaced_keys > 0) }}
    {% endcall %}
    {% do _count_run(name, misplaced_keys, key_list) %}
    {% do _uncache(cached) %}
{% endmacro %}

{# Adds the run's row to `fold_counters`, and tells the user. #}
{% macro _count_run(name, misplaced_keys, key_list) %}
    {% set beyond_log = 0 if misplaced_keys == 0 else _count(
        '(select ' ~ key_list ~ ' from ' ~ name ~ 'misplaced left semi join ' ~ name ~ 'known using (' ~ key_list ~ ')'
        ~ ' left anti join (select ' ~ key_list ~ ', _position from ' ~ name ~ 'log left semi join ' ~ name
        ~ 'known using (' ~ key_list ~ ', _position)) using (' ~ key_list ~ '))'
    ) %}
    {% set new, clock_ahead = run_query(
        'select count(*), count_if(_is_clock_ahead) from ' ~ name ~ 'new_events'
    )[0] %}
    {% set touched, late = run_query(
        'select count(*), coalesce(sum(_late_events), 0) from ' ~ name ~ 'states'
    )[0] %}
    {% do run_query(
        'insert into ' ~ ref('fold_counters') ~ ' (invocation_id, gold_table, as_of, new_events, touched_keys,'
        ~ ' refolded_keys, keys_beyond_log, late_events, clock_ahead_events) values ('
        ~ [sql_text(invocation_id), table_scope(this), as_of(), new, touched, misplaced_keys, beyond_log, late,
            clock_ahead] | join(', ') ~ ')'
    ) %}
    {% do log(
        this ~ ': ' ~ new ~ ' new events, ' ~ touched ~ ' keys touched, ' ~ late ~ ' late events rejected, '
        ~ misplaced_keys ~ ' keys refolded from the log', info=true
    ) %}
{% endmacro %}

{# Evaluates a query once, for the statements that follow. #}
{% macro _cache(cached, name, query) %}
    {# What a failed run of the same session has left would be in the way. #}
    {% do run_query('drop view if exists ' ~ name) %}
    {% do run_query('cache table ' ~ name ~ ' as ' ~ query) %}
    {% do cached.append(name) %}
{% endmacro %}

{% macro _uncache(cached) %}
    {% for relation in cached | reverse %}
        {# Uncaching alone would leave the view. #}
        {% do run_query('drop view if exists ' ~ relation) %}
    {% endfor %}
{% endmacro %}

{% macro _count(relation) %}
    {% do return(run_query('select count(*) from ' ~ relation)[0][0]) %}
{% endmacro %}

{#
  Keeps the state of keys that end absent, so that a late older write can't bring them back. A key that lives again
  keeps its old entry, which its gold row outranks, until the entry is purged. But if its row is of an event before the
  entry's (a delete that came first is late, now that the write it should have come after is known), the entry goes
  back to that event: nothing remembered is newer than gold.

  Arguments:
      states: the relation with the folded keys.
      refolded: whether it holds keys that were folded from their whole log, which alone can go back.
#}
{% macro _remember_absent_keys(fold, deleted_keys, states, refolded) %}
    {% do run_query('
        merge into ' ~ deleted_keys ~ ' as target
        using (
            select
                ' ~ record_key(fold.key) ~ ' as record_key,
                _max_occurred_at as max_occurred_at,
                _position as position,
                _null_position as null_position,
                _live
            from ' ~ states ~ ('' if refolded else ' where not _live') ~ '
        ) as source
        on target.scope = ' ~ table_scope(this) ~ ' and target.record_key = source.record_key
        when matched and (not source._live or target.position > source.position) then update set
            max_occurred_at = source.max_occurred_at,
            position = source.position,
            null_position = source.null_position,
            recorded_at = ' ~ as_of() ~ '
        when not matched and not source._live then insert
            (scope, record_key, max_occurred_at, position, null_position, recorded_at)
        values (
            ' ~ table_scope(this) ~ ', source.record_key, source.max_occurred_at, source.position,
            source.null_position, ' ~ as_of() ~ '
        )
    ') %}
{% endmacro %}

{#
  The newest truncate of a table, or none: {position, time} as SQL literals, and whether it `is_new`.

  Arguments:
      log: the new rows of the change log.
      remembered: `deleted_keys` as it is to be read, or none for a rebuild.
#}
{% macro _newest_truncate(fold, log, remembered) %}
    {% if fold.namespace %}
        {% do return(none) %}
    {% endif %}
    {% set found = run_query('
        select
            unix_micros(_position.log_time), _position.topic, _position.partition, _position.offset,
            _position.event_index, unix_micros(_time), _is_new
        from (
            select _position, ' ~ known_time('_occurred_at', '_kafka_timestamp') ~ ' as _time, true as _is_new
            from ' ~ log ~ '
            where ' ~ fold.key[0] ~ " is null and _operation = 'truncate'" ~ ('' if not remembered else '
            union all
            select position, max_occurred_at, false
            from ' ~ remembered ~ ' where scope = ' ~ truncate_scope(this)) ~ '
        )
        order by _position desc, _is_new desc
        limit 1
    ') %}
    {% if found | length == 0 %}
        {% do return(none) %}
    {% endif %}
    {% set log_time, topic, partition, offset, event_index, time, is_new = found[0] %}
    {% do return({
        'position': "named_struct('log_time', " ~ _moment(log_time) ~ ", 'topic', " ~ sql_text(topic)
            ~ ", 'partition', " ~ partition ~ ", 'offset', cast(" ~ offset ~ " as bigint), 'event_index', "
            ~ event_index ~ ')',
        'time': _moment(time),
        'is_new': is_new,
    }) %}
{% endmacro %}

{# A timestamp literal from microseconds since the epoch, or a null of that type. #}
{% macro _moment(micros) -%}
    {{ 'cast(null as timestamp)' if micros is none else 'timestamp_micros(' ~ micros ~ ')' }}
{%- endmacro %}

{# Keeps the newest truncate of the running model's table, for events that come after it, or late. #}
{% macro _remember_truncate(deleted_keys, truncation) %}
    {% if truncation %}
        {% do run_query('
            merge into ' ~ deleted_keys ~ ' as target
            using (select ' ~ truncation.position ~ ' as position, ' ~ truncation.time ~ ' as time) as source
            on target.scope = ' ~ truncate_scope(this) ~ '
            when matched and target.position < source.position then update set
                max_occurred_at = source.time, position = source.position, recorded_at = ' ~ as_of() ~ "
            when not matched then insert (scope, record_key, max_occurred_at, position, null_position, recorded_at)
            values (" ~ truncate_scope(this) ~ ", '', source.time, source.position, null, " ~ as_of() ~ ')
        ') %}
    {% endif %}
{% endmacro %}

{#
  Caches the keys with a state behind a new truncate: it comes late, so what they are may rest on what it took away.
  Returns whether there are any.
#}
{% macro _cache_behind_truncate(cached, name, fold, log, gold, remembered, truncation) %}
    {% set key_list = fold.key | join(', ') %}
    {% set absent %}
        (
            select record_key as _record_key from {{ remembered }}
            where scope = {{ table_scope(this) }} and position > {{ truncation.position }}
        )
    {% endset %}
    {% set behind %}
        select {{ key_list }} from {{ gold }} where _position > {{ truncation.position }}
        {% if _count(absent) > 0 %}
        union
        -- Only the log has the columns of an absent key.
        select {{ key_list }}
        from (select {{ key_list }}, {{ record_key(fold.key) }} as _record_key from {{ log }})
        left semi join {{ absent }} using (_record_key)
        {% endif %}
    {% endset %}
    {% do _cache(cached, name ~ 'behind_truncate', behind) %}
    {% do return(_count(name ~ 'behind_truncate') > 0) %}
{% endmacro %}

{# Whether an event of a log leaves columns as they were without saying their values. #}
{% macro _leaves_columns(fold, log) %}
    {% if fold.namespace %}
        {% do return(false) %}
    {% endif %}
    {% set found = run_query('select 1 from ' ~ log ~ ' where size(_unchanged_columns) > 0 limit 1') %}
    {% do return(found | length > 0) %}
{% endmacro %}

{#
  Deletes what is absent, updates what has changed, inserts what is live and new; all else stays untouched.

  Arguments:
      refolded: whether keys were folded from their whole log: then columns can change though the last event is the same.
#}
{% macro _merge_states_sql(fold, states, refolded) -%}
    {%- set columns = _gold_columns(fold) -%}
    merge into {{ this }} as target
    using {{ states }} as source
    on
        {%- for column in fold.key %}
        target.{{ column }} <=> source.{{ column }}{{ ' and' if not loop.last }}
        {%- endfor %}
    when matched and not source._live then delete
    when matched and (
        target._position <> source._position
        or not target._max_occurred_at <=> source._max_occurred_at
        {%- if refolded and fold.columns %}
        or to_json(struct(target.{{ fold.columns | join(', target.') }}))
        <> to_json(struct(source.{{ fold.columns | join(', source.') }}))
        {%- endif %}
    ) then update set
        {%- for column in columns %}
        {{ column }} = source.{{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    when not matched and source._live then insert
        ({{ columns | join(', ') }})
    values (
        {%- for column in columns %}
        source.{{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
{%- endmacro %}
