{{ config(materialized="append_only") }}

{{ dbt.model_sql("quarantined_payloads", {
    "events": ref("other_events"),
    "payloads": source("bronze", "raw_payloads"),
}) }}
