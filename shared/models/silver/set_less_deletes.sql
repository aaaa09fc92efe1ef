{{ config(materialized="append_only") }}

{{ dbt.model_sql("set_less_deletes", {"events": ref("other_events")}) }}
