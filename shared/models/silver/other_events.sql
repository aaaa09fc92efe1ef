{#
  JSON texts differ from row to row, and no query filters by a range of them: their dictionaries and
  statistics take time to write, and help no reader. A model's properties replace the project's, so
  the compression level is here too.
#}
{% set table_properties = {"write.parquet.compression-level": "1"} %}
{% for column in ["record_key", "before", "after", "metadata"] %}
    {% do table_properties.update({
        "write.parquet.dict-encoding-enabled.column." ~ column: "false",
        "write.parquet.stats-enabled.column." ~ column: "false",
    }) %}
{% endfor %}
{{ config(materialized="other_events", tblproperties=table_properties) }}

{{ adapter.model_sql("other_events", context, {
    "payloads": source("bronze", "raw_payloads"),
    "log_times": ref("log_times"),
}) }}
