{# The events of a change log as the fold takes them (dbt_lakehouse/build/sql/events.sql). #}
{% macro log_events_sql(fold, changes, deletes=none, keys=none) -%}
    {{ adapter.part('events', 'log_events', fold, changes, deletes, keys) }}
{%- endmacro %}

{# All events of a log, or of some of its keys (dbt_lakehouse/build/sql/events.sql). #}
{% macro all_events_sql(fold, changes, deletes=none, keys=none, has_truncates=true) -%}
    {{ adapter.part('events', 'all_events', fold, changes, deletes, keys, has_truncates) }}
{%- endmacro %}

{# A namespace's deletes without a set (dbt_lakehouse/build/sql/events.sql). #}
{% macro remembered_deletes_sql(run, fold, remembered) -%}
    {{ adapter.part(
        'events', 'remembered_deletes', fold.namespace, remembered,
        run.sequence_read(run.upstreams[1])
    ) }}
{%- endmacro %}

{# The value columns of an event that has none. #}
{% macro no_columns(fold) -%}
    {{ adapter.part('parts', 'no_columns', fold.columns) }}
{%- endmacro %}
