{#
  Forgets the states of keys in `silver.deleted_keys` that were recorded more than
  `vars.tombstone_retention_days` ago, and keeps the newest time among them (of the log or of the
  source) as the table's `lakehouse.purge_horizon`: an event of an unknown key whose log time or
  source time is not after the horizon may belong to a forgotten state, so it is folded with its
  key's whole log.
#}
{% macro purge_deleted_keys() %}
    {% do ref('fold_counters') %}
    {% if not execute %}{% do return('') %}{% endif %}
    {# Each gold table adds a snapshot in each run. #}
    {% do adapter.expire_own_history(this) %}
    {% set days = var('tombstone_retention_days') %}
    {# Most runs have nothing to forget, and find out without a query. #}
    {% if not adapter.may_have_rows(this, [
        ('recorded_at', '<=', (as_of_text(), days)), ('scope', 'not starting with', 'truncated:')
    ]) %}
        {% do return('') %}
    {% endif %}
    {% set old %}
        recorded_at < {{ as_of() }} - make_dt_interval(0, 0, 0, {{ days * 86400 }})
        and scope not like 'truncated:%'
    {% endset %}
    {% set found = run_query(
        'select count(*), cast(max(greatest('
        ~ 'position.log_time, null_position.log_time, max_occurred_at'
        ~ ')) as string) from ' ~ this ~ ' where ' ~ old
    )[0] %}
    {% if found[0] > 0 %}
        {% set known = purge_horizon(this) %}
        {% set horizon = [found[1] or '', known or ''] | max %}
        {% do set_properties(this, {'lakehouse.purge_horizon': horizon}) %}
        {% do run_query('delete from ' ~ this ~ ' where ' ~ old) %}
        {% do add_counters(table_scope(this), {'purged_keys': found[0]}) %}
        {% do log(this ~ ': purged ' ~ found[0] ~ ' states, horizon ' ~ horizon, info=true) %}
    {% endif %}
{% endmacro %}

{# The newest time that was ever purged, as text, or none. #}
{% macro purge_horizon(deleted_keys) %}
    {% do return(_properties(deleted_keys).get('lakehouse.purge_horizon')) %}
{% endmacro %}
