{#
  The condition that a truncate stands for a full snapshot that has read the key, and therefore ends
  no version of it. The next event is then a whole row that was read, and not older by its time.

  Arguments:
      position, time: the truncate's position and time.
      behind: the key's next event, null for none.
#}
{% macro is_read(position, time, behind) %}
coalesce(
    {{ position }}.event_index < 0
    and {{ behind }}._operation = 'snapshot'
    and coalesce(size({{ behind }}._unchanged_columns) <= 0, true)
    and coalesce({{ behind }}._guard_time >= {{ time }}, true),
    false
)
{%- endmacro %}

{#
  The events of a log in the order in which a key's rows follow each other (fold.sql): common table
  expressions up to `ranked`, which has the columns of event_parts.log_events, `_epoch` (the number
  of truncates before, in a log of one source table), `_is_end` (whether a truncate caused it) and
  `_rank`, by key. A truncate is a delete of each key that it deleted.

  Arguments:
      fold: the Fold.
      log: the change log, to select from.
      log_events: SQL as of event_parts.all_events.
#}
{% macro ranked(fold, log, log_events) %}
log_events as (
    {{ log_events | indent }}
),

{% if fold.namespace %}
events as (
    select
        *,
        0 as _epoch,
        false as _is_end
    from log_events
),
{% elif fold.several_sources %}
placed as (
    select
        *,
        {{ parts.is_effective(fold.key) | indent(8) }} as _is_effective
    from log_events
),

own as (
    select
        *,
        lag(_operation) over (
            partition by {{ fold.key_list }}
            order by _position
        ) as _operation_before,
        lead(struct(_source, _operation, _guard_time, _unchanged_columns)) over (
            partition by {{ fold.key_list }}
            order by _position
        ) as _behind
    from placed
    where _is_effective
),

events as (
    select
        * except (_operation, _is_effective, _operation_before, _behind),
        if(_operation = 'truncate', 'delete', _operation) as _operation,
        0 as _epoch,
        false as _is_end
    from own
    -- A second truncate in a row takes nothing away, and its time is none of the key's.
    where not (
        _operation = 'truncate'
        and (
            _operation_before <=> 'truncate'
            or (
                _behind._source <=> _source
                and {{ is_read('_position', '_guard_time', '_behind') | indent(16) }}
            )
        )
    )
),
{% else %}
truncates as (
    select
        array_sort(collect_list(struct(
            _position,
            {{ parts.known_time() | indent(12) }} as _time
        ))) as _all
    from {{ log }} as changes
    -- A truncate has no key; by that, statistics spare the files without any.
    where {{ fold.key[0] }} is null and _operation = 'truncate'
),

placed as (
    select
        log_events.*,
        filter(_all, truncate -> truncate._position < log_events._position) as _before,
        filter(_all, truncate -> truncate._position > log_events._position) as _after,
        lead(struct(_position, _operation, _guard_time, _unchanged_columns)) over (
            partition by {{ fold.key_list }}
            order by _position
        ) as _behind
    from log_events
    cross join truncates
),

events as (
    select
        * except (_before, _after, _behind),
        size(_before) as _epoch,
        false as _is_end
    from placed
    {% if fold.order_by_source_time %}
    where coalesce(_guard_time >= try_element_at(_before, -1)._time, true)
    {% endif %}
    union all
    select
        {{ fold.key_list }},
        {{ parts.no_columns(fold.columns) | indent(8) }}
        'delete' as _operation,
        _end._time as _occurred_at,
        _end._time as _guard_time,
        _end._position,
        cast(null as timestamp) as _expires_at,
        false as _is_state,
        false as _is_clock_ahead,
        cast(null as array<string>) as _unchanged_columns,
        _epoch,
        true as _is_end
    from (
        select {{ fold.key_list }}, get(_after, 0) as _end, size(_before) as _epoch
        from placed
        where
            -- Of the key's last event before it.
            size(_after) > 0
            and coalesce(_behind._position > _after[0]._position, true)
            and not (
                coalesce(_behind._position < get(_after, 1)._position, true)
                and {{ is_read('_after[0]._position', '_after[0]._time', '_behind') | indent(16) }}
            )
    )
),
{% endif %}

{% if fold.order_by_source_time %}
timed as (
    select
        *,
        -- An event without a time comes after all that the log has before it.
        coalesce(
            _guard_time,
            max(_guard_time) over (
                partition by {{ fold.key_list }}, _epoch
                order by _position
                rows between unbounded preceding and 1 preceding
            )
        ) as _time
    from events
),

{% endif %}
ranked as (
    select
        *,
        row_number() over (
            partition by {{ fold.key_list }}
            order by
                {{ '_epoch, _is_end, _time nulls first, ' if fold.order_by_source_time }}_position
        ) as _rank
    from {{ 'timed' if fold.order_by_source_time else 'events' }}
)
{%- endmacro %}
