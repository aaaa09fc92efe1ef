{#
  Forgets the states of keys in `silver.deleted_keys` that were recorded more than
  `vars.tombstone_retention_days` ago, and notes the newest time among them (of the log or of the
  source) as the table's `lakehouse.purge_horizon`: an event of an unknown key whose log time or
  source time is not after the horizon may belong to a forgotten state, so it is folded with its
  key's whole log.

  A namespace's deletes without a set are for its gold tables to read: those that one of them has
  not read yet stay, however old they are. A table whose model was not there meanwhile finds noted
  that some are gone (`lakehouse.purged`), and is built anew (dbt_lakehouse/dbt/node_run.py).
#}
{% macro purge_deleted_keys() %}
    {% do ref('fold_counters') %}
    {% if not dbt.is_building() %}{% do return('') %}{% endif %}
    {# Each gold table adds a snapshot in each run. #}
    {% do adapter.expire_own_history(this) %}
    {% set days = var('tombstone_retention_days', 7) %}
    {# Most runs have nothing to forget, and find out without a query. #}
    {% if not adapter.may_have_rows(this, [
        ('recorded_at', '<=', (dbt.as_of_text(), days)),
        ('scope', 'not starting with', 'truncated:')
    ]) %}
        {% do return('') %}
    {% endif %}
    {% set old %}
        recorded_at < {{ dbt.as_of() }} - make_dt_interval(0, 0, 0, {{ days * 86400 }})
        and scope not like 'truncated:%'
        and (
            scope not like 'aerospike:%'
            or _last_updated_sequence_number <= {{ adapter.sequence_read_by_all(this) }}
        )
    {% endset %}
    {# Rows are chosen by a column of Iceberg's own, which a delete can't ask for. #}
    {% do adapter.evaluate(
        dbt.view_of('old'),
        'select *, _last_updated_sequence_number as _sequence from ' ~ this ~ ' where ' ~ old
    ) %}
    {% set found = run_query(
        'select count(*), cast(max(greatest('
        ~ 'position.log_time, null_position.log_time, max_occurred_at'
        ~ ")) as string), max(if(scope like 'aerospike:%', _sequence, null)) from "
        ~ dbt.view_of('old')
    )[0] %}
    {% if found[0] > 0 %}
        {% set known = adapter.look_at_table(this).noted('lakehouse.purge_horizon') %}
        {% set horizon = [found[1] or '', known or ''] | max %}
        {# Before the states go: who finds neither would take a late event for the first. #}
        {% set notes = {'lakehouse.purge_horizon': horizon} %}
        {% if found[2] is not none %}
            {% do notes.update({'lakehouse.purged': found[2]}) %}
        {% endif %}
        {% do adapter.note(this, notes) %}
        {# Older entries of a key go with the newest, whenever they were recorded. #}
        {% do run_query(
            'merge into ' ~ this ~ ' as target using ('
            ~ 'select scope, record_key, max(recorded_at) as recorded_at, max(position) as position'
            ~ ' from ' ~ dbt.view_of('old') ~ ' group by scope, record_key) as source'
            ~ ' on target.scope = source.scope and target.record_key = source.record_key'
            ~ ' when matched and ('
            ~ 'target.recorded_at <= source.recorded_at or target.position < source.position'
            ~ ') then delete'
        ) %}
        {% do dbt.add_counters(dbt.table_scope(this), {'purged_keys': found[0]}) %}
        {% do dbt.log_info(this ~ ': purged ' ~ found[0] ~ ' states, horizon ' ~ horizon) %}
    {% endif %}
    {% do adapter.drop_evaluated(dbt.view_of('')) %}
{% endmacro %}
