{#
  The newest of all that is known of a gold table's keys, of its rows and of its remembered states:
  the table's property `lakehouse.newest`, {"log_time": ..., "time": ...} in microseconds since the
  epoch, null where no key has one. A new event with a later log time, and a source time that is no
  earlier, is late for no key, and what was known of its key makes no difference any more. Most runs
  have no others, and need not look for the rows of their keys.

  It may be newer than what is known, for rows go and states are forgotten; it is never older. It is
  written with the watermarks: after a crash, a run reads again what made the rows newer.
#}
{% macro _newest_known() %}
    {% set held = _properties(this).get('lakehouse.newest') %}
    {% do return(fromjson(held) if held else none) %}
{% endmacro %}

{#
  The keys of events that may be late, as of _newest_known, which is there.

  Arguments:
      events: a relation of events, as of _log_events.
      horizon: as of purge_horizon: events behind it may be late for a state that is forgotten.
#}
{% macro _possibly_late(fold, events, horizon) -%}
    {%- set newest = _newest_known() -%}
select {{ fold.key | join(', ') }} from {{ events }}
where not coalesce(
    unix_micros(_position.log_time)
    {{ '> ' ~ newest.log_time if newest.log_time is not none else 'is not null' }}
    {%- if newest.time is not none %}
    and unix_micros(_guard_time) >= {{ newest.time }}
    {%- endif %}
    {%- if horizon %}
    and not {{ _is_behind(horizon) }}
    {%- endif %},
    false
)
{%- endmacro %}

{# The newest log time and source time of states, as SQL of aggregates. #}
{% macro _newest(position, time) -%}
    unix_micros(max({{ position }}.log_time)), unix_micros(max({{ time }}))
{%- endmacro %}

{#
  Notes the newest with the watermarks.

  Arguments:
      log_time, time: of the states that the run has made; not looked at
          where nothing was noted before.
#}
{% macro _note_newest_known(log_time, time, deleted_keys) %}
    {% set before = _newest_known() %}
    {% if before %}
        {% set newest = {
            'log_time': [log_time, before.log_time] | reject('none') | max | default(none),
            'time': [time, before.time] | reject('none') | max | default(none),
        } %}
    {% else %}
        {% set found = run_query('
            select ' ~ _newest('position', 'time') ~ ' from (
                select _position as position, _max_occurred_at as time from ' ~ this ~ '
                union all
                select position, max_occurred_at from ' ~ deleted_keys ~ '
                where scope in (' ~ table_scope(this) ~ ', ' ~ truncate_scope(this) ~ ')
            )
        ')[0] %}
        {% set newest = {'log_time': found[0], 'time': found[1]} %}
    {% endif %}
    {% do _noted_properties().update({'lakehouse.newest': tojson(newest)}) %}
{% endmacro %}

{# A rebuilt table has its watermarks before its newest is known. #}
{% macro _forget_newest_known() %}
    {% do _noted_properties().update({'lakehouse.newest': ''}) %}
{% endmacro %}
