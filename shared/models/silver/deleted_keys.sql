{{
    config(
        materialized="state_table",
        unique_key=["scope", "record_key"],
        partition_by=["scope"],
        post_hook="{{ dbt.purge_deleted_keys() }}",
    )
}}

{% set deletes = ref("set_less_deletes") %}
{% set run = dbt.begin_run([deletes], merges=true) if dbt.is_building() else none %}
-- Of any number of deletes only two can matter to what comes before or after them: the one with
-- the newest time, and the newest one without a time. Both are maxima, so runs may see the deletes
-- in any order and repeat them.
with new_deletes as (
    select
        {{ dbt.namespace_scope("_namespace") }} as scope,
        {{ dbt.record_key(["_digest"]) }} as record_key,
        {{ dbt.known_time("_occurred_at", "_kafka_timestamp") }} as occurred_at,
        _position as position
    from {{ run.rows(deletes) if run else deletes }}
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

{% if dbt.goes_on() %}
-- Only scopes of namespaces: the states of single tables are written by the gold models.
remembered as (
    select
        scope,
        record_key,
        struct(max_occurred_at as occurred_at, position) as newest_timed,
        max_occurred_at,
        null_position
    from {{ this }}
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
        -- Of Aerospike there is none.
        cast(null as string) as source_place,
        {{ dbt.as_of() }} as recorded_at
    from combined
)

select * from final
