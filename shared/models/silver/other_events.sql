{#
  JSON texts differ from row to row, and nobody asks for a range of them: dictionaries and
  statistics of them take time to write, and help no reader. A model's properties take the place of
  the project's, so the level of compression is here too.
#}
{% set table_properties = {"write.parquet.compression-level": "1"} %}
{% for column in ["record_key", "before", "after", "metadata"] %}
    {% do table_properties.update({
        "write.parquet.dict-encoding-enabled.column." ~ column: "false",
        "write.parquet.stats-enabled.column." ~ column: "false",
    }) %}
{% endfor %}
{{ config(materialized="other_events", tblproperties=table_properties) }}

{% set new_payloads = dbt.new_rows(source("bronze", "raw_payloads")) %}
{% set partitions = dbt.partitions_of(new_payloads) %}
{% set corrections = dbt.log_time_corrections(new_payloads, partitions, ref("log_times")) %}
with decoded as (
    select * from {{ dbt.looked_events(new_payloads, partitions) }}
),

timed as (
    select
        decoded.topic,
        decoded.partition,
        decoded.offset,
        decoded.event_index,
        decoded.timestamp,
        {{
            "coalesce(corrections.log_time, decoded.timestamp)" if corrections
            else "decoded.timestamp"
        }} as log_time,
        decoded.format,
        decoded.operation,
        decoded.source_database,
        decoded.source_schema,
        decoded.source_table,
        decoded.record_key,
        decoded.before,
        decoded.after,
        decoded.occurred_at,
        decoded.expires_at,
        decoded.metadata,
        decoded.error_code,
        decoded.error_detail,
        cast(null as string) as added_by,
        decoded.is_taken,
        decoded.events
    from decoded
    {% if corrections %}
    left join {{ corrections }} as corrections
        on
            decoded.topic = corrections.topic
            and decoded.partition = corrections.partition
            and decoded.offset = corrections.offset
    {% endif %}
),

final as (
    select
        * except (is_taken),
        {{ dbt.is_taken() }} as is_taken
    from timed
)

select * from final
