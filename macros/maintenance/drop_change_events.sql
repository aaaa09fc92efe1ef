{#
  Drop silver.change_events of a lake from the time before change logs read bronze directly, and
  report the freed space: `dbt run-operation drop_change_events`. The table is not read any more;
  its events that no change log takes are in other_events.
#}
{% macro drop_change_events() %}
    {{ log(adapter.drop_change_events(ref('other_events')), info=true) }}
{% endmacro %}
