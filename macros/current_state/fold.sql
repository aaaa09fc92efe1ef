{#
  The fold itself, from a CTE `events` to a CTE `states`: one row per key with the columns of the
  last applied event, `_max_occurred_at`, `_position`, `_is_state` (whether that is no event),
  `_null_position` (of the newest event without a time), `_late_events` (how many were older than
  one before them in the log) and `_live`.

  A column that an event leaves as it was keeps the value of the last event that says it; a delete
  says that there is none. Where images are partial and the table is ordered by source time, a late
  event is not rejected but put in its place: of two late events on different columns, both count.

  Arguments:
      truncation: as of _truncation_of, or none if the log has no truncate.
      fills: whether any event leaves columns as they were.
#}
{% macro _fold_ctes(fold, truncation=none, fills=true) -%}
    {%- set key_list = fold.key | join(', ') -%}
    {%- set fills = fills and fold.columns and (fold.partial or not fold.namespace) -%}
    {%- set takes_late = _takes_late_events(fold) -%}
    {%- set ends_lives = _ends_lives(fold) -%}
    {%- set order = 'struct(_time, _position)' if takes_late else '_position' -%}
    {%- set applied = 'true' if takes_late else '_in_time' -%}
    {%- set row = ['_operation', '_expires_at', '_occurred_at', '_position', '_is_state']
        + ([] if fills else fold.columns) -%}
    {%- set start = ', ' ~ truncation.time if truncation else '' -%}
    {%- set newest_before -%}
        {{ 'greatest(' if start }}max(_guard_time) over (
                partition by {{ key_list }}
                order by _position
                rows between unbounded preceding and 1 preceding
            ){{ start ~ ')' if start }}
    {%- endset -%}
judged as (
    select
        *,
        {% if fold.order_by_source_time -%}
        -- Late: both times known, and an event before this one in the log has the newer. That
        -- rejected events count too makes no difference: they never have the newest time.
        _is_state or coalesce(
            _guard_time >= {{ newest_before }},
            true
        ) as _in_time
        {%- else -%}
        true as _in_time
        {%- endif %}
        {%- if takes_late %},
        -- An event without a time comes after all that the log has before it.
        coalesce(
            _guard_time,
            {{ newest_before }}
        ) as _time
        {%- endif %}
    from events
    {%- if truncation %}
    where
        coalesce(_position > {{ truncation.position }}, true)
        {%- if takes_late %}
        and coalesce(_guard_time >= {{ truncation.time }}, true)
        {%- endif %}
    {%- endif %}
),

{% if ends_lives -%}
lives as (
    select
        *,
        {{ _begins_life(key_list, order) }} as _begins_life
    from judged
),

{% endif -%}
folded as (
    select
        {{ key_list }},
        max_by(struct({{ row | join(', ') }}), {{ order }}) filter (where {{ applied }}) as _row,
        {%- if fills %}
        {%- for column in fold.columns %}
        max_by(
            struct(
                if(_operation = 'delete', null, {{ column }}) as value
                {{- ', ' ~ order ~ ' as place' if ends_lives }}
            ),
            {{ order }}
        ) filter (where {{ applied }} and {{ _says(column) }}) as {{ column }},
        {%- endfor %}
        {%- endif %}
        {%- if ends_lives %}
        max({{ order }}) filter (where _begins_life) as _last_life,
        {%- endif %}
        {{ 'greatest(' if start }}max(_guard_time){{ start ~ ')' if start }} as _max_occurred_at,
        max(_position) filter (where _guard_time is null) as _null_position,
        count_if(not _in_time) as _late_events
    from {{ 'lives' if ends_lives else 'judged' }}
    group by {{ key_list }}
),

states as (
    select
        {{ key_list }},
        {%- for column in fold.columns %}
        {% if not fills -%}
        _row.{{ column }},
        {%- elif ends_lives -%}
        if({{ column }}.place < _last_life, null, {{ column }}.value) as {{ column }},
        {%- else -%}
        {{ column }}.value as {{ column }},
        {%- endif %}
        {%- endfor %}
        _row._occurred_at,
        _max_occurred_at,
        _row._position,
        _row._expires_at,
        _row._is_state,
        _null_position,
        _late_events,
        _row._operation <> 'delete' and coalesce(_row._expires_at > {{ as_of() }}, true) as _live
    from folded
)
{%- endmacro %}

{# Whether late events are put in their place, rather than rejected. #}
{% macro _takes_late_events(fold) %}
    {% do return(fold.partial and fold.order_by_source_time) %}
{% endmacro %}

{#
  Whether a row's expiry matters to what comes after it: a partial image then
  has nothing to leave as it was.
#}
{% macro _ends_lives(fold) %}
    {% do return(fold.partial and fold.namespace and fold.columns | length > 0) %}
{% endmacro %}

{# Whether the row that an event finds has expired. #}
{% macro _begins_life(key_list, order) -%}
    coalesce(
            lag(_expires_at) over (partition by {{ key_list }} order by {{ order }})
            <= coalesce(_guard_time, _position.log_time),
            false
        )
{%- endmacro %}

{# Whether an event says what a column is. #}
{% macro _says(column) -%}
    not {{ _is_unchanged(column) }}
{%- endmacro %}
