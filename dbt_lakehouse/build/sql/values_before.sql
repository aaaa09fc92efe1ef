{#
  For each row of a key update the columns of the old key's row before its delete, structs:
  `is_known` with the `value`, or the `text` that did not fit, or `rests_on`, the place of another
  of the rows, whose value it has.

  Arguments:
      log: the log, to select from.
      key, columns: its key and its value columns, quoted.
      updates: a relation of the rows, as of key_updates.
      resting: a relation of the places of the rows to examine.
      order_by_source_time: whether an event that is late by its time is rejected.
      several_sources: whether the log has several source tables.
#}
{% set key_list = key | join(', ') %}
with updates as (
    select * from {{ updates }} left semi join {{ resting }} using (_lh_place)
),

deletes as (
    select * from {{ log }}
    where _key_update.id is not null and _operation = 'delete'
),

probes as (
    select
        {{ key | each('updates._key_update.key_before.{}') | lines | indent(8) }},
        updates._lh_place,
        coalesce(
            if(
                updates._key_update.change is not null,
                -- The first: messages can come again.
                min(deletes._position),
                max(deletes._position) filter (
                    where deletes._position.log_time <= updates._position.log_time
                )
            ),
            updates._position
        ) as _position
    from updates
    left join deletes
        on
            {{ key | each('deletes.{} = updates._key_update.key_before.{}') | join(' and ') }}
            and deletes._key_update.id = updates._key_update.id
            and deletes._key_update.change <=> updates._key_update.change
    group by updates._key_update, updates._lh_place, updates._position
),

events as (
    select
        {{ (key + columns) | join(', ') }},
        {{ key_update_parts.place() }} as _lh_place,
        _operation,
        _position,
        {{ '_source,' if several_sources }}
        _unchanged_columns,
        _misfits,
        _key_update.columns as _lh_columns,
        struct(_operation, _key_update.id) as _lh_change,
        {{ parts.known_time() | indent(8) }} as _lh_time
    from {{ log }}
    left semi join probes using ({{ key_list }})
    where _operation in ({{ operations_of_rows }})
    union all
    -- A truncate takes the row of every key away.
    select
        {{ key_list }},
        {{ columns | each('null as {}') | lines_with_commas | indent(8) }}
        _lh_place,
        'truncate' as _operation,
        _position,
        {{ '_source,' if several_sources }}
        null as _unchanged_columns,
        null as _misfits,
        null as _lh_columns,
        null as _lh_change,
        _lh_time
    from (select distinct {{ key_list }} from probes)
    cross join (
        select
            {{ key_update_parts.place() }} as _lh_place,
            _position,
            {{ '_source,' if several_sources }}
            {{ parts.known_time() | indent(12) }} as _lh_time
        from {{ log }}
        where {{ key[0] }} is null and _operation = 'truncate'
    )
),

own as (
    {% if several_sources %}
    select * from (
        select *, {{ parts.is_effective(key) | indent(8) }} as _lh_is_effective
        from events
    )
    where _lh_is_effective
    {% else %}
    select * from events
    {% endif %}
),

epochs as (
    select
        *,
        count_if(_operation = 'truncate') over (
            partition by {{ key_list }}
            order by _position
        ) as _lh_epoch
    from own
),

applied as (
    select
        epochs.*,
        resting._lh_place is not null as _lh_is_resting,
        {% if order_by_source_time %}
        -- One that is late by its time is rejected; a truncate begins anew.
        coalesce(
            _lh_time >= max(_lh_time) over (
                partition by {{ key_list }}, _lh_epoch
                order by _position
                rows between unbounded preceding and 1 preceding
            ),
            true
        ) as _lh_in_time
        {% else %}
        true as _lh_in_time
        {% endif %}
    from epochs
    left join {{ resting }} as resting on epochs._lh_place = resting._lh_place
),

placed as (
    select
        {{ (key + columns) | join(', ') }},
        _lh_place,
        _operation,
        _position,
        _unchanged_columns,
        _misfits,
        _lh_columns,
        _lh_is_resting,
        false as _lh_is_probe,
        _lh_change,
        lead(_lh_change) over (partition by {{ key_list }} order by _position) as _lh_next
    from applied
    where _lh_in_time
    union all
    select
        {{ key_list }},
        {{ columns | each('null as {}') | lines_with_commas | indent(8) }}
        _lh_place,
        null as _operation,
        _position,
        null as _unchanged_columns,
        null as _misfits,
        null as _lh_columns,
        false as _lh_is_resting,
        true as _lh_is_probe,
        null as _lh_change,
        null as _lh_next
    from probes
),

told as (
    select
        _lh_is_probe,
        _lh_place,
        {% for column in columns %}
        last(
            case
                when _lh_is_probe then null
                -- The tombstone behind a rewritten delete is a second one of the same key update.
                when _operation = 'delete' and _lh_next = _lh_change then null
                when _operation in ('delete', 'truncate')
                    then {{ key_update_parts.value_before() | indent(20) }}
                when
                    _lh_is_resting
                    and array_contains(_lh_columns, {{ column.strip('`') | literal }})
                    then {{ key_update_parts.value_before(rests_on='_lh_place') | indent(20) }}
                when not {{ parts.is_unchanged(column) }}
                    then {{ key_update_parts.value_before(column, misfit=column) | indent(20) }}
                when _operation in ('snapshot', 'insert')
                    then {{ key_update_parts.value_before() | indent(20) }}
            end,
            true
        ) over (
            partition by {{ key_list }}
            order by _position, not _lh_is_probe
            rows between unbounded preceding and 1 preceding
        ) as {{ column }}{{ ',' if not loop.last }}
        {% endfor %}
    from placed
)

select * from told where _lh_is_probe
