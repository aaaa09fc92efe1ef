{{ config(materialized="append_only") }}

{{ adapter.model_sql("quarantined_payloads", context, {
    "events": ref("other_events"),
    "payloads": source("bronze", "raw_payloads"),
}) }}
