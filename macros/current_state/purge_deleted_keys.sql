{#
  Forgets the states of keys in `silver.deleted_keys` that were recorded more than
  `vars.tombstone_retention_days` ago (dbt_lakehouse/build/purge.py).
#}
{% macro purge_deleted_keys() %}
    {% do ref('fold_counters') %}
    {% if dbt.is_building() %}
        {# Each gold table adds a snapshot in each run. #}
        {% do adapter.expire_own_history(this) %}
        {% do adapter.purge(this, dbt.as_of_text(), var('tombstone_retention_days', 7)) %}
    {% endif %}
{% endmacro %}
