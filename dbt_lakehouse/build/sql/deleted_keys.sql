{#
  The keys that Aerospike's deletes without a set delete.

  Only two of a key's deletes can affect other events: the one with the newest time, and the newest
  one without a time. Both are maxima, so runs may read the deletes in any order and repeat them.

  Arguments:
      deletes: the new rows of set_less_deletes, to select from.
      remembered: deleted_keys as it is, none for a rebuild.
      as_of: the moment of the run, as text.
#}
with new_deletes as (
    select
        concat('aerospike:', _namespace) as scope,
        {{ parts.record_key(['_digest']) | indent(8) }} as record_key,
        {{ parts.known_time() | indent(8) }} as occurred_at,
        _position as position
    from {{ deletes }}
),

summarised as (
    select
        scope,
        record_key,
        max(struct(occurred_at, position)) filter (where occurred_at is not null) as newest_timed,
        max(position) filter (where occurred_at is null) as null_position
    from new_deletes
    group by scope, record_key
),

{% if remembered %}
{# Only scopes of namespaces: the states of single tables are written by the gold models. #}
remembered as (
    select
        scope,
        record_key,
        struct(max_occurred_at as occurred_at, position) as newest_timed,
        max_occurred_at,
        null_position
    from {{ remembered }}
    where scope like 'aerospike:%'
),

combined as (
    select
        summarised.scope,
        summarised.record_key,
        greatest(
            summarised.newest_timed,
            case when remembered.max_occurred_at is not null then remembered.newest_timed end
        ) as newest_timed,
        greatest(summarised.null_position, remembered.null_position) as null_position
    from summarised
    left join remembered using (scope, record_key)
),

{% else %}
combined as (
    select * from summarised
),

{% endif %}
final as (
    select
        scope,
        record_key,
        newest_timed.occurred_at as max_occurred_at,
        coalesce(newest_timed.position, null_position) as position,
        null_position,
        {# Of Aerospike there is none. #}
        cast(null as string) as source_place,
        timestamp '{{ as_of }}' as recorded_at
    from combined
)

select * from final
