{#
  The unjudged tombstones of the windows whose key's previous event there is neither a delete nor a
  tombstone.

  Arguments:
      events: the events of the windows, to select from.
#}
with events as (
    select
        *,
        {{ tombstone_parts.message_key() | indent(8) }} as message_key,
        {{ tombstone_parts.says_nothing() | indent(8) }} as says_nothing,
        {{ payload_parts.event_position('events') | indent(8) }} as position
    from {{ events | indent }} as events
    where
        (
            operation in ({{ operations_of_rows }}, 'tombstone')
            or (operation = 'invalid' and event_index = 1)
        )
),

named as (
    select
        * except (metadata),
        coalesce(
            {{ tombstone_parts.named_schema('$.event_key_schema') | indent(12) }},
            {{ tombstone_parts.named_schema('$.schema_name') | indent(12) }}
        ) as schema_name
    from events
    left semi join (select topic, message_key from events where says_nothing)
        using (topic, message_key)
),

followed as (
    select
        *,
        lag(named_struct(
            'operation', operation,
            'table', source_table,
            'schema_name', schema_name
        )) over (
            partition by topic, message_key
            order by position
        ) as before_it
    from named
)

select * from followed
left anti join (
    select topic, partition, offset from events where event_index = 1
) using (topic, partition, offset)
where
    says_nothing
    and not (
        coalesce(before_it.operation in ('delete', 'tombstone'), false)
        -- Of another table, it would be no delete of this one's row.
        and (
            schema_name is null
            or schema_name <=> before_it.schema_name
            or coalesce(
                {{ tombstone_parts.names_table('schema_name', 'before_it.table') | indent(16) }},
                false
            )
        )
    )
