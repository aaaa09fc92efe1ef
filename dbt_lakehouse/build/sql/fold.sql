{#
  The fold itself, from a relation of events to a CTE `states`: one row per key with the columns of
  the last applied event, `_max_occurred_at`, `_position`, `_lh_is_state` (whether it is a known
  state instead of an event), `_lh_live` (false after a delete, truncate or expiry: the row is
  absent from gold), and for building the table

      _lh_null_position   of the newest event without a time
      _lh_late_events     how many were older than one before them in the log
      _lh_events          the number of events
      _lh_clock_ahead     the number of those with a time ahead of Kafka's
      _lh_leaves_columns  whether any leaves columns unchanged
      _lh_first_position  the least position
      _lh_first_time      the least known time
      _lh_known_position  the place of its known state
      _lh_is_reinserted   whether several different rows were inserted without as many deletes in
                          between, which is impossible for a real key

  If all of a key's events follow a truncate in the log but are older than it, none is applied: the
  key is not live, and has no `_position`.

  A column that an event leaves unchanged keeps the value of the last event that has one; a delete
  sets it to null. If images are partial and the table is ordered by source time, a late event is
  not rejected but put in its place: of two late events on different columns, both count.

  Arguments:
      fold: the Fold (dbt_lakehouse/declared/fold_of_log.py).
      events: a relation of events, as of event_parts.log_events.
      truncates: a relation of truncates (_position, _lh_time), or none. For a log of several source
          tables, the events contain them.
      fills: whether any event may leave columns unchanged.
      doubts: whether to look for keys whose rows are inserted again.
      as_of: the moment at which rows expire, as text.
#}
{% set order = 'struct(_lh_time, _position)' if fold.takes_late else '_position' %}
{% set row = ['_operation', '_expires_at', '_occurred_at', '_position', '_lh_is_state']
    + ([] if fills else fold.columns) %}
{% set truncated = truncates and not fold.several_sources %}
{% set since_truncate = '_lh_is_since_truncate' if truncated else 'true' %}
{% set applied = since_truncate if fold.takes_late else '_lh_in_time' %}
{% set start = '(select max_by(_lh_time, _position) from truncates)' %}
{% set is_insert = "_operation = 'insert' and not _lh_is_state" %}
{% set row_hash = 'xxhash64(' ~ (fold.hashable_columns | join(', ') or '_occurred_at') ~ ')' %}
{% set newest_before %}
{{ 'greatest(' if truncated }}max(_lh_guard_time) over (
            partition by {{ fold.key_list }}
            order by _position
            rows between unbounded preceding and 1 preceding
        ){{ ', ' ~ start ~ ')' if truncated }}
{%- endset %}
with
{% if truncated %}
truncates as (
    select * from {{ truncates }}
),

{% endif %}
events as (
    select * from {{ events }}
),

{% if fold.several_sources %}
-- A truncate takes away the row if that came from the source table that it empties.
placed as (
    select
        *,
        {{ parts.is_effective(fold.key) | indent(8) }} as _lh_is_effective
    from events
),

-- What came before a truncate of its own no longer matters to a key.
since_truncate as (
    select
        *,
        max(if(_operation = 'truncate', _position, null)) over (
            partition by {{ fold.key_list }}
        ) as _lh_truncated_at
    from placed
    where _lh_is_effective
),

{% endif %}
judged as (
    select
        *,
        {% if fold.order_by_source_time %}
        -- Late: both times are known, and an earlier event in the log has a newer time. Rejected
        -- events may count too: they never have the newest time.
        _lh_is_state or coalesce(
            _lh_guard_time >= {{ newest_before }},
            true
        ) as _lh_in_time
        {%- else %}
        true as _lh_in_time
        {%- endif %}
        {% if fold.takes_late %},
        -- An event without a time comes after all that the log has before it.
        coalesce(
            _lh_guard_time,
            {{ newest_before }}
        ) as _lh_time
        {%- if truncated %},
        coalesce(_lh_guard_time >= {{ start }}, true) as _lh_is_since_truncate
        {% endif %}
        {% endif %}
    from {{ 'since_truncate' if fold.several_sources else 'events' }}
    {% if fold.several_sources %}
    where coalesce(_position >= _lh_truncated_at, true)
    {% elif truncated %}
    -- What came before the newest truncate no longer matters.
    where coalesce(_position > (select max(_position) from truncates), true)
    {% endif %}
),

{% if fold.ends_lives %}
lives as (
    select
        *,
        {{ parts.begins_life(fold.key, order) | indent(8) }} as _lh_begins_life
    from judged
),

{% endif %}
folded as (
    select
        {{ fold.key_list }},
        max_by(struct({{ row | join(', ') }}), {{ order }}) filter (where {{ applied }}) as _row,
        {% if fills %}
        {% for column in fold.columns %}
        max_by(
            struct(
                if(_operation in ('delete', 'truncate'), null, {{ column }}) as value
                {{- ', ' ~ order ~ ' as place' if fold.ends_lives }}
            ),
            {{ order }}
        ) filter (where {{ applied }} and not {{ parts.is_unchanged(column) }}) as {{ column }},
        {% endfor %}
        {% endif %}
        {% if fold.ends_lives %}
        max({{ order }}) filter (where _lh_begins_life) as _lh_last_life,
        {% endif %}
        {{ 'greatest(' if truncated }}max(_lh_guard_time){{ ', ' ~ start ~ ')' if truncated }}
            as _max_occurred_at,
        max(_position) filter (where _lh_guard_time is null) as _lh_null_position,
        count_if(not _lh_in_time) as _lh_late_events,
        count_if(not _lh_is_state) as _lh_events,
        count_if(_lh_is_clock_ahead) as _lh_clock_ahead,
        coalesce(bool_or(size(_unchanged_columns) > 0), false) as _lh_leaves_columns,
        min(_position) filter (where not _lh_is_state) as _lh_first_position,
        min(_lh_guard_time) filter (where not _lh_is_state) as _lh_first_time,
        max(_position) filter (where _lh_is_state) as _lh_known_position,
        {% if doubts %}
        -- More than there are deletes for. The same row twice is a message that came again.
        coalesce(
            count_if({{ is_insert }}) > count_if(_operation in ('delete', 'truncate')) + 1
            and min({{ row_hash }}) filter (where {{ is_insert }})
            <> max({{ row_hash }}) filter (where {{ is_insert }}),
            false
        ) as _lh_is_reinserted
        {% else %}
        false as _lh_is_reinserted
        {% endif %}
    from {{ 'lives' if fold.ends_lives else 'judged' }}
    group by {{ fold.key_list }}
),

states as (
    select
        {{ fold.key_list }},
        {% if not fills %}
        {{ fold.columns | each('_row.{}') | lines_with_commas | indent(8) }}
        {% elif fold.ends_lives %}
        {{ fold.columns | each('if({}.place < _lh_last_life, null, {}.value) as {}')
            | lines_with_commas | indent(8) }}
        {% else %}
        {{ fold.columns | each('{}.value as {}') | lines_with_commas | indent(8) }}
        {% endif %}
        _row._occurred_at,
        _max_occurred_at,
        _row._position,
        _row._expires_at,
        _row._lh_is_state,
        coalesce(
            _row._operation not in ('delete', 'truncate')
            and coalesce(_row._expires_at > timestamp '{{ as_of }}', true),
            false
        ) as _lh_live,
        _lh_null_position,
        _lh_late_events,
        _lh_events,
        _lh_clock_ahead,
        _lh_leaves_columns,
        _lh_first_position,
        _lh_first_time,
        _lh_known_position,
        _lh_is_reinserted
    from folded
)

select {{ columns | join(', ') }}
from states
{{ 'where _lh_live' if only_live }}
