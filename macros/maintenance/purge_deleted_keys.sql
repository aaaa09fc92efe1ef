{#
  Purge the states of keys in `silver.deleted_keys` that were recorded more than
  `vars.tombstone_retention_days` ago (dbt_lakehouse/build/purge.py).
#}
{% macro purge_deleted_keys() %}
    {% do ref('fold_counters') %}
    {% do adapter.purge(context) %}
{% endmacro %}
