{#
  The newest truncate of a log, as SQL of its position and of its time, or none for tables that know
  none. What came before it no longer matters: events before it are left out, and its time is what
  later events are held against.

  Arguments:
      changes: the log to select from.
#}
{% macro _truncation_of(fold, changes) %}
    {% if fold.namespace %}
        {% do return(none) %}
    {% endif %}
    {% set truncates %}
        from {{ changes }} as changes
        -- A truncate has no key; by that, statistics spare the files without any.
        where {{ fold.key[0] }} is null and _operation = 'truncate'
    {% endset %}
    {% set time = known_time('_occurred_at', '_kafka_timestamp') %}
    {% do return({
        'position': '(select max(_position) ' ~ truncates ~ ')',
        'time': '(select max_by(' ~ time ~ ', _position) ' ~ truncates ~ ')',
    }) %}
{% endmacro %}

{#
  The newest truncate of a table, or none: {position, time} as SQL literals,
  and whether it `is_new`.

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
            select
                _position,
                ' ~ known_time('_occurred_at', '_kafka_timestamp') ~ ' as _time,
                true as _is_new
            from ' ~ log ~ '
            where ' ~ fold.key[0] ~ " is null and _operation = 'truncate'"
            ~ ('' if not remembered else '
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
        'position': "named_struct('log_time', " ~ _moment(log_time)
            ~ ", 'topic', " ~ sql_text(topic) ~ ", 'partition', " ~ partition
            ~ ", 'offset', cast(" ~ offset ~ " as bigint), 'event_index', " ~ event_index ~ ')',
        'time': _moment(time),
        'is_new': is_new,
    }) %}
{% endmacro %}

{# A timestamp literal from microseconds since the epoch, or a null of that type. #}
{% macro _moment(micros) -%}
    {{ 'cast(null as timestamp)' if micros is none else 'timestamp_micros(' ~ micros ~ ')' }}
{%- endmacro %}

{#
  Keeps the newest truncate of the running model's table, for events that come after it, or late. A
  rebuild keeps that of the log and no other: what the log has may have been declared anew.

  Arguments:
      truncation: as of _newest_truncate.
      rebuild: whether it is the newest of the whole log.
#}
{% macro _remember_truncate(deleted_keys, truncation, rebuild=false) %}
    {% if rebuild and not truncation and adapter.may_have_rows(
        deleted_keys, [('scope', '=', 'truncated:' ~ this.schema ~ '.' ~ this.identifier)]
    ) %}
        {% do run_query('delete from ' ~ deleted_keys ~ ' where scope = ' ~ truncate_scope(this)) %}
    {% elif truncation %}
        {% do run_query('
            merge into ' ~ deleted_keys ~ ' as target
            using (
                select ' ~ truncation.position ~ ' as position, ' ~ truncation.time ~ ' as time
            ) as source
            on target.scope = ' ~ truncate_scope(this) ~ '
            when matched and target.position ' ~ ('<>' if rebuild else '<') ~ ' source.position
            then update set
                max_occurred_at = source.time,
                position = source.position,
                recorded_at = ' ~ as_of() ~ "
            when not matched then insert
                (scope, record_key, max_occurred_at, position, null_position, recorded_at)
            values (
                " ~ truncate_scope(this) ~ ", '', source.time, source.position, null,
                " ~ as_of() ~ '
            )
        ') %}
    {% endif %}
{% endmacro %}

{#
  Evaluates the keys with a state behind a new truncate: it comes late, so what they are may rest on
  what it took away. Returns whether there are any.
#}
{% macro _evaluate_behind_truncate(name, fold, log, gold, remembered, truncation) %}
    {% set key_list = fold.key | join(', ') %}
    {% set absent %}
        (
            select record_key as _record_key from {{ remembered }}
            where scope = {{ table_scope(this) }} and position > {{ truncation.position }}
        )
    {% endset %}
    {% set behind %}
        select {{ key_list }} from {{ gold }} where _position > {{ truncation.position }}
        {% if count_rows(absent) > 0 %}
        union
        -- Only the log has the columns of an absent key.
        select {{ key_list }}
        from (select {{ key_list }}, {{ record_key(fold.key) }} as _record_key from {{ log }})
        left semi join {{ absent }} using (_record_key)
        {% endif %}
    {% endset %}
    {% do return(evaluate(name ~ 'behind_truncate', behind) > 0) %}
{% endmacro %}
