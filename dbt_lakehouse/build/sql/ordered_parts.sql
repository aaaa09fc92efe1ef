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
    and coalesce({{ behind }}._lh_guard_time >= {{ time }}, true),
    false
)
{%- endmacro %}

{#
  The events of a log in the order in which a key's rows follow each other (fold.sql): common table
  expressions up to `ranked`, which has the columns of event_parts.log_events, `_lh_epoch` (the
  number of truncates before, in a log of one source table), `_lh_is_end` (whether a truncate caused
  it) and `_lh_rank`, by key. A truncate is a delete of each key that it deleted.

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
        0 as _lh_epoch,
        false as _lh_is_end
    from log_events
),
{% elif fold.several_sources %}
placed as (
    select
        *,
        {{ parts.is_effective(fold.key) | indent(8) }} as _lh_is_effective
    from log_events
),

own as (
    select
        *,
        lag(_operation) over (
            partition by {{ fold.key_list }}
            order by _position
        ) as _lh_operation_before,
        lead(struct(_source, _operation, _lh_guard_time, _unchanged_columns)) over (
            partition by {{ fold.key_list }}
            order by _position
        ) as _lh_behind
    from placed
    where _lh_is_effective
),

events as (
    select
        * except (_operation, _lh_is_effective, _lh_operation_before, _lh_behind),
        if(_operation = 'truncate', 'delete', _operation) as _operation,
        0 as _lh_epoch,
        false as _lh_is_end
    from own
    -- A second truncate in a row takes nothing away, and its time is none of the key's.
    where not (
        _operation = 'truncate'
        and (
            _lh_operation_before <=> 'truncate'
            or (
                _lh_behind._source <=> _source
                and {{ is_read('_position', '_lh_guard_time', '_lh_behind') | indent(16) }}
            )
        )
    )
),
{% else %}
truncates as (
    select
        array_sort(collect_list(struct(
            _position,
            {{ parts.known_time() | indent(12) }} as _lh_time
        ))) as _lh_all
    from {{ log }} as changes
    -- A truncate has no key; by that, statistics spare the files without any.
    where {{ fold.key[0] }} is null and _operation = 'truncate'
),

placed as (
    select
        log_events.*,
        filter(_lh_all, truncate -> truncate._position < log_events._position) as _lh_before,
        filter(_lh_all, truncate -> truncate._position > log_events._position) as _lh_after,
        lead(struct(_position, _operation, _lh_guard_time, _unchanged_columns)) over (
            partition by {{ fold.key_list }}
            order by _position
        ) as _lh_behind
    from log_events
    cross join truncates
),

events as (
    select
        * except (_lh_before, _lh_after, _lh_behind),
        size(_lh_before) as _lh_epoch,
        false as _lh_is_end
    from placed
    {% if fold.order_by_source_time %}
    where coalesce(_lh_guard_time >= try_element_at(_lh_before, -1)._lh_time, true)
    {% endif %}
    union all
    select
        {{ fold.key_list }},
        {{ fold.columns | each('null as {}') | lines_with_commas | indent(8) }}
        'delete' as _operation,
        _lh_end._lh_time as _occurred_at,
        _lh_end._lh_time as _lh_guard_time,
        _lh_end._position,
        cast(null as timestamp) as _expires_at,
        false as _lh_is_state,
        false as _lh_is_clock_ahead,
        cast(null as array<string>) as _unchanged_columns,
        _lh_epoch,
        true as _lh_is_end
    from (
        select {{ fold.key_list }}, get(_lh_after, 0) as _lh_end, size(_lh_before) as _lh_epoch
        from placed
        where
            -- Of the key's last event before it.
            size(_lh_after) > 0
            and coalesce(_lh_behind._position > _lh_after[0]._position, true)
            and not (
                coalesce(_lh_behind._position < get(_lh_after, 1)._position, true)
                and {{
                    is_read('_lh_after[0]._position', '_lh_after[0]._lh_time', '_lh_behind')
                    | indent(16)
                }}
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
            _lh_guard_time,
            max(_lh_guard_time) over (
                partition by {{ fold.key_list }}, _lh_epoch
                order by _position
                rows between unbounded preceding and 1 preceding
            )
        ) as _lh_time
    from events
),

{% endif %}
ranked as (
    select
        *,
        row_number() over (
            partition by {{ fold.key_list }}
            order by
                {{ '_lh_epoch, _lh_is_end, _lh_time nulls first,' if fold.order_by_source_time }}
                _position
        ) as _lh_rank
    from {{ 'timed' if fold.order_by_source_time else 'events' }}
)
{%- endmacro %}
