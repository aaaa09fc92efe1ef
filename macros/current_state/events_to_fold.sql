{#
  What an incremental run of build_current_state folds, in SQL over the run's evaluated views:
  `new_events`, `unsettled`, `known`, `misplaced` and `log`, each behind the run's `name`.
#}

{#
  The log's new events, those of most runs in one partition: then all of the fold is one task, and
  shuffles nothing.

  Arguments:
      changes: the log.
      new_log_rows: its new rows, as SQL of a relation.
#}
{% macro _new_events(fold, changes, new_log_rows) -%}
    {%- set mark = _marks().get(changes.schema ~ '.' ~ changes.identifier) -%}
    {%- set rows = adapter.rows_since(changes, mark.snapshot) if mark -%}
    {%- set is_small = mark and rows is not none and rows <= 200000 -%}
    {{- 'select /*+ coalesce(1) */ * from (' if is_small }}
    {{- _log_events(fold, new_log_rows, none) }}
    {{- ')' if is_small }}
{%- endmacro %}

{#
  A namespace's deletes without a set: one or two events for each key, and whether they are new to
  the running model.
#}
{% macro _remembered_deletes(fold, remembered, last_read) -%}
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
{%- endmacro %}

{#
  The keys of which it makes a difference what is known of them: where that can be newer than a new
  event, where an event leaves columns as they were, and where the key has no new event.

  Arguments:
      fills: whether a new event leaves columns as they were.
      horizon: as of purge_horizon.
      hit_by_others: SQL of keys that a delete without a set hits or that have expired, or none.
      refolded: views with keys that are to be folded from their whole log.
#}
{% macro _unsettled_keys(
    fold, name, fills, horizon, deleted_keys, remembered_deletes, hit_by_others, refolded
) %}
    {% set key_list = fold.key | join(', ') %}
    {% set keys = [] %}
    {% if fills or not _newest_known() %}
        {% do keys.append('select ' ~ key_list ~ ' from ' ~ name ~ 'new_events') %}
    {% else %}
        {% do keys.append(_possibly_late(fold, name ~ 'new_events', horizon)) %}
        {% if fold.namespace and adapter.may_have_rows(
            deleted_keys, [('scope', '=', 'aerospike:' ~ fold.namespace)]
        ) %}
            {% do keys.append(
                'select _digest from ' ~ name ~ 'new_events'
                ~ ' left semi join (' ~ remembered_deletes ~ ') using (_digest)'
            ) %}
        {% endif %}
    {% endif %}
    {% if hit_by_others %}
        {% do keys.append(hit_by_others) %}
    {% endif %}
    {% for view in refolded %}
        {% do keys.append('select ' ~ key_list ~ ' from ' ~ view) %}
    {% endfor %}
    {% do return(keys | join(' union all ')) %}
{% endmacro %}

{#
  What is known of those keys: the gold row of a live one, the remembered state of an absent one.
  Gold's value columns are read only where an event may leave some of them as they are: else a row
  is either replaced as a whole or not at all.

  Arguments:
      ranges: how many ranges of the keys are held (dbt_lakehouse/dbt/key_ranges.py).
#}
{% macro _known_states(fold, name, gold, remembered, ranges, fills, truncation) -%}
select
    {%- for column in fold.key %}
    unsettled.{{ column }},
    {%- endfor %}
    {%- if fills %}
    {%- for column in fold.columns %}
    gold.{{ column }},
    {%- endfor %}
    {%- else %}
    {{- _no_columns(fold) }}
    {%- endif %}
    if(gold._position is null, 'delete', 'upsert') as _operation,
    gold._occurred_at,
    if(gold._position is null, absent.max_occurred_at, gold._max_occurred_at) as _guard_time,
    coalesce(gold._position, absent.position) as _position,
    {{ 'gold._expires_at' if fold.namespace else 'cast(null as timestamp) as _expires_at' }},
    true as _is_state,
    false as _is_clock_ahead,
    cast(null as array<string>) as _unchanged_columns
from (select *, {{ record_key(fold.key) }} as _record_key from {{ name }}unsettled) as unsettled
-- Few rows: with gold on the right of the outer join, all of it would be shuffled.
left join (
    select * from {{ gold }}
    left semi join {{ name }}unsettled using ({{ fold.key | join(', ') }})
    where {{ is_in_key_ranges(fold.key[0], name ~ 'known', ranges) }}
) as gold
    on
        {% for column in fold.key %}
        unsettled.{{ column }} = gold.{{ column }}{{ ' and ' if not loop.last }}
        {% endfor %}
left join (select * from {{ remembered }} where scope = {{ table_scope(this) }}) as absent
    on gold._position is null and unsettled._record_key = absent.record_key
where
    coalesce(gold._position, absent.position) is not null
    {%- if truncation %}
    and coalesce(gold._position, absent.position) > {{ truncation.position }}
    {%- endif %}
{%- endmacro %}

{#
  Keys with an event that belongs before what is known of them, and those that
  are to be folded anew anyway.
#}
{% macro _misplaced_keys(fold, name, new_events, remembered_deletes, horizon, refolded) -%}
{%- set key_list = fold.key | join(', ') -%}
select distinct {{ key_list }}
from (
    select {{ key_list }}, _position, _guard_time from {{ new_events }}
    {%- if remembered_deletes %}
    union all
    select _digest, _position, _occurred_at from ({{ remembered_deletes }}) where _is_new
    {%- endif %}
) as fresh
{{ 'inner' if not horizon else 'left' }} join (
    select
        {{ key_list }},
        _position as _known_position,
        _guard_time as _known_time,
        _operation <> 'delete' as _is_known_live
    from {{ name }}known
) using ({{ key_list }})
left semi join {{ name }}unsettled using ({{ key_list }})
where
    _position <= _known_position
    {%- if _takes_late_events(fold) %}
    or _guard_time < _known_time
    {%- endif %}
    {%- if _ends_lives(fold) %}
    -- Absent for its expiry, the row has columns that an event from before that
    -- leaves as they were.
    or not _is_known_live
    {%- endif %}
    {%- if horizon %}
    or (_known_position is null and {{ _is_behind(horizon) }})
    {%- endif %}
{%- for view in refolded %}
union
select {{ key_list }} from {{ view }}
{%- endfor %}
{%- endmacro %}

{# The new events with what is known of their keys; of misplaced keys, their whole log. #}
{% macro _events_to_fold(
    fold, name, new_events, remembered_deletes, unsettled_keys, misplaced_keys
) -%}
{%- set key_list = fold.key | join(', ') -%}
{%- set fresh -%}
    select * from {{ new_events }}
    {%- if remembered_deletes and unsettled_keys > 0 %}
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
    left semi join {{ name }}unsettled using (_digest)
    {%- endif %}
{%- endset -%}
{%- if misplaced_keys == 0 -%}
{{ fresh }}
{%- if unsettled_keys > 0 %}
union all
select * from {{ name }}known
{%- endif %}
{%- else -%}
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
{%- endif %}
{%- endmacro %}
