{#
  Drops the silver.change_events of a lake of before change logs read bronze themselves, and says
  what that frees: `dbt run-operation drop_change_events`. Nothing reads it any more; what no change
  log takes of it is in other_events.
#}
{% macro drop_change_events() %}
    {{ log(adapter.drop_change_events(ref('other_events')), info=true) }}
{% endmacro %}
