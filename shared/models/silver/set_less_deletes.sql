{{ config(materialized="append_only") }}

{{ adapter.model_sql("set_less_deletes", context, {"events": ref("other_events")}) }}
