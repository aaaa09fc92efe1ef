{#
  Keeps the state of keys that end absent, so that a late older write can't bring them back. A key
  that lives again keeps its old entry, which its gold row outranks, until the entry is purged. But
  if its row is of an event before the entry's (a delete that came first is late, now that the write
  it should have come after is known), the entry goes back to that event: nothing remembered is
  newer than gold.

  A key that ends absent again, or stays so, gets a further entry, which is no older than those it
  has: the newest one counts.

  Arguments:
      states: the relation with the folded keys.
      refolded: whether it holds keys that were folded from their whole log, which alone
          can go back.
#}
{% macro remember_absent_keys(fold, deleted_keys, states, refolded) %}
    {% do adapter.refuse_overtaken(this) %}
    {% set absent %}
        select
            {{ dbt.record_key(fold.key) }} as record_key,
            _max_occurred_at as max_occurred_at,
            _position as position,
            _null_position as null_position,
            _live
        from {{ states }}
        {{ 'where not _live' if not refolded }}
    {% endset %}
    {% set columns = 'scope, record_key, max_occurred_at, position, null_position, recorded_at' %}
    {% if not refolded %}
        {% do run_query(
            'insert into ' ~ deleted_keys ~ ' (' ~ columns ~ ') select ' ~ dbt.table_scope(this)
            ~ ', record_key, max_occurred_at, position, null_position, ' ~ dbt.as_of()
            ~ ' from (' ~ absent ~ ')'
        ) %}
        {% do return(none) %}
    {% endif %}
    {% do run_query('
        merge into ' ~ deleted_keys ~ ' as target
        using (' ~ absent ~ ') as source
        on target.scope = ' ~ dbt.table_scope(this) ~ ' and target.record_key = source.record_key
        when matched and (not source._live or target.position > source.position) then update set
            max_occurred_at = source.max_occurred_at,
            position = source.position,
            null_position = source.null_position,
            recorded_at = ' ~ dbt.as_of() ~ '
        when not matched and not source._live then insert (' ~ columns ~ ')
        values (
            ' ~ dbt.table_scope(this) ~ ', source.record_key, source.max_occurred_at,
            source.position, source.null_position, ' ~ dbt.as_of() ~ '
        )
    ') %}
{% endmacro %}

{#
  Forgets the states of keys that the log does not have, or no longer.

  Arguments:
      events: SQL of all events of the log.
#}
{% macro _forget_unknown_keys(fold, deleted_keys, events) %}
    {# No part of the MERGE above: its condition would be on all tables' states, and so conflict
       with their models. #}
    {% do run_query(
        'delete from ' ~ deleted_keys ~ ' where scope = ' ~ dbt.table_scope(this)
        ~ ' and not exists (select 1 from (select ' ~ dbt.record_key(fold.key)
        ~ ' as known_key from (' ~ events ~ ')) where known_key = record_key)'
    ) %}
{% endmacro %}
