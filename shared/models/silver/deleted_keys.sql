{{
    config(
        materialized="state_table",
        unique_key=["scope", "record_key"],
        partition_by=["scope"],
        post_hook="{{ dbt.purge_deleted_keys() }}",
    )
}}

{{ adapter.model_sql("deleted_keys", context, {"deletes": ref("set_less_deletes")}) }}
