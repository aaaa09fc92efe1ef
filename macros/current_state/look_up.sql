{#
  What is known of the keys for which it may make a difference, and with it the events to fold: the
  second step of an incremental run (materialization.sql). Defines the view of events anew; returns
  what is counted of it.

  Arguments:
      run: the NodeRun.
      fold: the Fold.
      found: the summary of the new events' states (fold.Found), or none.
      plan: what to look up (fold.Plan).
      truncates: as of find_truncates.
      remembered: `deleted_keys` as it is to be read.
      hit_by_others: SQL of keys that a delete without a set hits or that have expired, or none.
      resting: SQL of keys as of keys_with_values_of_others, or none.
      is_late: as of possibly_late_sql.
      horizon: up to when remembered states were forgotten, or none.
#}
{% macro look_up(
    run, fold, found, plan, truncates, remembered, hit_by_others, resting, is_late, horizon
) %}
    {% set key_list, log = fold.key | join(', '), dbt.pinned(run.upstreams[0], run.snapshot_of(
        run.upstreams[0]
    )) %}
    {% set gold = adapter.pinned_own(this) %}
    {% set states, unsettled = dbt.view_of('states'), dbt.view_of('unsettled') %}
    {% set known = dbt.view_of('known') %}
    {% set keys, refolded = [], [] %}
    {% if plan.all_keys %}
        {% do keys.append('select ' ~ key_list ~ ' from ' ~ states) %}
    {% elif plan.late_keys %}
        {% do keys.append('select ' ~ key_list ~ ' from ' ~ states ~ ' where ' ~ is_late) %}
    {% endif %}
    {% if plan.hit_keys %}
        {% do keys.append(hit_by_others) %}
    {% endif %}
    {% set new_truncates = truncates | selectattr('is_new') | list %}
    {% if new_truncates %}
        {% do refolded.append(
            dbt.keys_behind_truncates_sql(fold, log, gold, remembered, new_truncates)
        ) %}
    {% endif %}
    {% if fold.several_sources and truncates %}
        {# What a truncate took away may lie between an event before it and what is known now. #}
        {% do refolded.append(
            'select ' ~ key_list ~ ' from ' ~ gold ~ ' as gold left semi join '
            ~ dbt.view_of('truncates') ~ ' as truncates on gold._source = truncates._source'
            ~ ' and gold._position < truncates._position'
        ) %}
        {% if plan.all_keys or plan.late_keys %}
            {% do refolded.append(
                'select ' ~ key_list ~ ' from ' ~ states ~ ' where _first_position < (select'
                ~ ' max(_position) from ' ~ dbt.view_of('truncates') ~ ')'
            ) %}
        {% endif %}
    {% endif %}
    {% if plan.resting %}
        {% do refolded.append(resting) %}
    {% endif %}
    {% if plan.filled %}
        {% do refolded.append(
            'select ' ~ key_list ~ ' from ' ~ log ~ ' as changes where '
            ~ dbt.is_to_be_filled(run.to_fill, 'changes')
        ) %}
    {% endif %}
    {% if refolded %}
        {% do adapter.evaluate(dbt.view_of('refolded'), refolded | join(' union all ')) %}
        {% do keys.append('select ' ~ key_list ~ ' from ' ~ dbt.view_of('refolded')) %}
    {% endif %}
    {% do adapter.evaluate(
        unsettled, 'select distinct * from (' ~ keys | join(' union all ') ~ ')'
    ) %}
    {# Of all states, if these are all, or few; another query otherwise. #}
    {% set ranges = adapter.hold_key_ranges(known, found)
        if found and not plan.hit_keys and not refolded and (plan.all_keys or run.suits_small)
        else adapter.hold_key_ranges_of(known, unsettled, fold.key[0]) %}
    {% do adapter.evaluate(
        known, dbt._known_states(run, fold, unsettled, gold, remembered, ranges, truncates)
    ) %}
    {% set deletes = dbt.remembered_deletes_sql(run, fold, remembered) if fold.namespace %}
    {% set misplaced = dbt.view_of('misplaced') %}
    {% set misplaced_keys = adapter.evaluate(misplaced, dbt._misplaced_keys(
        run, fold, known, unsettled, deletes, horizon, plan, refolded
    )) %}
    {% set counts = {'refolded_keys': misplaced_keys} %}
    {% if horizon and (plan.all_keys or plan.late_keys) %}
        {% do counts.update({'late_after_purge': dbt.count_rows(
            '(select ' ~ key_list ~ ' from ' ~ states ~ ' left anti join ' ~ known ~ ' using ('
            ~ key_list ~ ') where '
            ~ dbt.is_behind_sql(horizon, '_first_position', '_first_time') ~ ')'
        )}) %}
    {% endif %}
    {% set log_events = dbt.view_of('log') %}
    {% if misplaced_keys > 0 %}
        {% do adapter.evaluate(log_events, dbt.all_events_sql(
            fold, log, dbt.pinned(ref('set_less_deletes')) if fold.namespace, misplaced,
            truncates | length > 0
        )) %}
        {% do counts.update({'keys_beyond_log': dbt.count_rows(
            '(select ' ~ key_list ~ ' from ' ~ misplaced
            ~ ' left semi join ' ~ known ~ ' using (' ~ key_list ~ ')'
            ~ ' left anti join (select ' ~ key_list ~ ', _position from ' ~ log_events
            ~ ' left semi join ' ~ known ~ ' using (' ~ key_list ~ ', _position))'
            ~ ' using (' ~ key_list ~ '))'
        )}) %}
    {% endif %}
    {% do adapter.define(dbt.view_of('events'), dbt._events_to_fold(
        run, fold, unsettled, known, deletes, misplaced_keys > 0
    )) %}
    {% do return(counts) %}
{% endmacro %}

{#
  Whether a state may have an event that is older than what is known of its key (fold.Newest).

  Arguments:
      newest: as of NodeRun.newest, or none.
      horizon: as of look_up.
#}
{% macro possibly_late_sql(newest, horizon) -%}
    {%- if not newest -%}
    true
    {%- else -%}
    not coalesce(
        unix_micros(_first_position.log_time)
        {{ '> ' ~ newest.log_time if newest.log_time is not none else 'is not null' }}
        {%- if newest.time is not none %}
        and _null_position is null
        and unix_micros(_first_time) >= {{ newest.time }}
        {%- endif %}
        {%- if horizon %}
        and not {{ dbt.is_behind_sql(horizon, '_first_position', '_first_time') }}
        {%- endif %},
        false
    )
    {%- endif -%}
{%- endmacro %}

{#
  Whether an event lies behind the purge horizon; without a log time,
  it comes before all that have one.
#}
{% macro is_behind_sql(horizon, position, time) -%}
    (
        {{ position }}.log_time is null
        or {{ position }}.log_time <= timestamp '{{ horizon }}'
        or coalesce({{ time }} <= timestamp '{{ horizon }}', false)
    )
{%- endmacro %}

{#
  A namespace's deletes without a set: one or two events for each key, and whether they are new to
  the running model.
#}
{% macro remembered_deletes_sql(run, fold, remembered) -%}
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
    _last_updated_sequence_number > {{ run.sequence_read(run.upstreams[1]) }} as _is_new
from {{ remembered }}
where scope = {{ dbt.namespace_scope(dbt.sql_text(fold.namespace)) }}
{%- endmacro %}

{#
  What is known of those keys: the gold row of a live one, the remembered state of an absent one.
  Gold's value columns are read only where an event may leave some of them as they are: else a row
  is either replaced as a whole or not at all.

  Arguments:
      ranges: the ranges of the keys, as of adapter.hold_key_ranges.
#}
{% macro _known_states(run, fold, unsettled, gold, remembered, ranges, truncates) -%}
{%- set columns = fold.columns if run.leaves else
    (['`_source`'] if fold.several_sources else []) -%}
with named as (
    select *, {{ dbt.record_key(fold.key) }} as _record_key from {{ unsettled }}
),

-- The newest entry of each. An older one may have a later time, from before a truncate.
absent as (
    select
        record_key as _record_key,
        max(struct(position, max_occurred_at)) as newest
    from {{ remembered }} as remembered
    left semi join named on remembered.record_key = named._record_key
    where scope = {{ dbt.table_scope(this) }}
    group by record_key
)

select
    {%- for column in fold.key %}
    unsettled.{{ column }},
    {%- endfor %}
    {%- for column in fold.columns %}
    {{ 'gold.' ~ column if column in columns else 'null as ' ~ column }},
    {%- endfor %}
    if(gold._position is null, 'delete', 'upsert') as _operation,
    gold._occurred_at,
    if(gold._position is null, absent.newest.max_occurred_at, gold._max_occurred_at) as _guard_time,
    coalesce(gold._position, absent.newest.position) as _position,
    {{ 'gold._expires_at' if fold.namespace else 'cast(null as timestamp) as _expires_at' }},
    true as _is_state,
    false as _is_clock_ahead,
    cast(null as array<string>) as _unchanged_columns
from named as unsettled
-- Few rows: with gold on the right of the outer join, all of it would be shuffled.
left join (
    select * from {{ gold }}
    left semi join {{ unsettled }} using ({{ fold.key | join(', ') }})
    where {{ dbt.is_in_key_ranges(fold.key[0], ranges) }}
) as gold
    on
        {% for column in fold.key %}
        unsettled.{{ column }} = gold.{{ column }}{{ ' and ' if not loop.last }}
        {% endfor %}
left join absent on gold._position is null and unsettled._record_key = absent._record_key
where
    coalesce(gold._position, absent.newest.position) is not null
    {%- if truncates and not fold.several_sources %}
    and coalesce(gold._position, absent.newest.position) > {{ truncates[0].position }}
    {%- endif %}
{%- endmacro %}

{#
  Keys with an event that belongs before what is known of them, and those that are to be folded anew
  anyway.

  Arguments:
      deletes: SQL as of remembered_deletes_sql, or none.
      refolded: whether there are keys to be folded anew anyway.
#}
{% macro _misplaced_keys(run, fold, known, unsettled, deletes, horizon, plan, refolded) -%}
{%- set key_list = fold.key | join(', ') -%}
{%- set fresh = [] -%}
{%- if plan.all_keys or plan.late_keys -%}
    {%- do fresh.append(
        'select ' ~ key_list ~ ', _first_position, _first_time from ' ~ dbt.view_of('states')
    ) -%}
{%- endif -%}
{%- if deletes -%}
    {%- do fresh.append(
        'select _digest, _position, _occurred_at from (' ~ deletes ~ ') where _is_new'
    ) -%}
{%- endif -%}
{%- if fresh -%}
select distinct {{ key_list }}
from ({{ fresh | join(' union all ') }}) as fresh ({{ key_list }}, _first_position, _first_time)
{{ 'inner' if not horizon else 'left' }} join (
    select
        {{ key_list }},
        _position as _known_position,
        _guard_time as _known_time,
        _operation <> 'delete' as _is_known_live
    from {{ known }}
) using ({{ key_list }})
left semi join {{ unsettled }} using ({{ key_list }})
where
    _first_position <= _known_position
    {%- if fold.takes_late %}
    or _first_time < _known_time
    {%- endif %}
    {%- if fold.ends_lives %}
    -- Absent for its expiry, the row has columns that an event from before that
    -- leaves as they were.
    or not _is_known_live
    {%- endif %}
    {%- if horizon %}
    or (
        _known_position is null
        and {{ dbt.is_behind_sql(horizon, '_first_position', '_first_time') }}
    )
    {%- endif %}
{%- endif -%}
{%- if refolded %}
{{ 'union' if fresh }}
select {{ 'distinct ' if not fresh }}{{ key_list }} from {{ dbt.view_of('refolded') }}
{%- elif not fresh %}
select {{ key_list }} from {{ unsettled }} where false
{%- endif %}
{%- endmacro %}

{#
  The new events with what is known of their keys; of misplaced keys, their whole log.

  Arguments:
      deletes: as of _misplaced_keys.
      has_misplaced: whether there are misplaced keys.
#}
{% macro _events_to_fold(run, fold, unsettled, known, deletes, has_misplaced) -%}
{%- set key_list, misplaced = fold.key | join(', '), dbt.view_of('misplaced') -%}
{%- set fresh -%}
    select * from ({{ dbt.new_events_sql(run, fold) }})
    {%- if deletes %}
    union all
    select
        _digest,
        {{ dbt.no_columns(fold) }}
        'delete' as _operation,
        _occurred_at,
        _occurred_at as _guard_time,
        _position,
        cast(null as timestamp) as _expires_at,
        false as _is_state,
        false as _is_clock_ahead,
        cast(null as array<string>) as _unchanged_columns
    from ({{ deletes }})
    left semi join {{ unsettled }} using (_digest)
    {%- endif %}
{%- endset -%}
{%- if not has_misplaced -%}
{{ fresh }}
union all
select * from {{ known }}
{%- else -%}
select * from {{ known }} left anti join {{ misplaced }} using ({{ key_list }})
union all
select * from ({{ fresh }}) left anti join {{ misplaced }} using ({{ key_list }})
union all
select * from {{ dbt.view_of('log') }}
-- Where the log doesn't reach back to what is known, that is the best there is.
union all
select * from {{ known }} as known
left semi join {{ misplaced }} using ({{ key_list }})
left anti join {{ dbt.view_of('log') }} as log
    on {% for column in fold.key %}log.{{ column }} = known.{{ column }} and {% endfor -%}
    log._position = known._position
{%- endif %}
{%- endmacro %}
