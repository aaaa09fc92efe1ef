{#
  Builds a gold table from its whole log: the rebuild of the materialization `current_state`. The
  log is folded once: rows, what is remembered of keys that end absent, and the ranges of keys in
  which rows are written are all taken from the states.

  Arguments:
      run: the NodeRun.
      fold: the Fold.
#}
{% macro _rebuild(run, fold) %}
    {% set changes, deleted_keys = run.upstreams %}
    {% set log = dbt.pinned(changes, run.snapshot_of(changes)) %}
    {% set has_truncates = dbt.may_meet_truncates(run, fold) %}
    {% set truncates = dbt.find_truncates(run, fold, log, none) if has_truncates else [] %}
    {% set deletes = ref('set_less_deletes') if fold.namespace %}
    {# To find out whose they are, Spark sends all keys of the log to where the deletes are. #}
    {% if deletes and not adapter.may_have_rows(deletes, [('_namespace', '=', fold.namespace)]) %}
        {% set deletes = none %}
    {% endif %}
    {% do adapter.define(
        dbt.view_of('events'), dbt.all_events_sql(fold, log, deletes, none, has_truncates)
    ) %}
    {% do dbt.remember_truncates(deleted_keys, truncates, rebuild=true) %}
    {% set states = dbt.view_of('states') %}
    {# Without the counters: what nobody asks for is not aggregated. #}
    {% do adapter.evaluate(
        states,
        'select ' ~ fold.gold_columns | join(', ')
        ~ ', _live, _null_position, _is_reinserted from (' ~ sql ~ ')'
    ) %}
    {% set rebuilt = dbt._summary_of_rebuild(deleted_keys, states) %}
    {% do adapter.keep_doubts(this, rebuilt) %}
    {% set remembers = adapter.may_have_rows(
        deleted_keys, [('scope', '=', this.schema ~ '.' ~ this.identifier)]
    ) %}
    {% if rebuilt.absent > 0 or remembers %}
        {# States of this table that are remembered may have to go back. #}
        {% do dbt.remember_absent_keys(fold, deleted_keys, states, refolded=remembers) %}
    {% endif %}
    {% if remembers %}
        {% do dbt._forget_unknown_keys(
            fold, deleted_keys, dbt.log_events_sql(fold.without_columns(), log, deletes)
        ) %}
    {% endif %}
    {# In the order of keys, so that a run can pass over the files of those
       that it does not touch. #}
    {% set key_list = fold.key | join(', ') %}
    {% do dbt.replace_table(
        'select /*+ repartition_by_range(' ~ adapter.ranges_to_write(rebuilt.live) ~ ', '
        ~ key_list ~ ') */ ' ~ fold.gold_columns | join(', ') ~ ' from ' ~ states
        ~ ' where _live sort by ' ~ key_list,
        {'lakehouse.as_of': dbt.as_of_text(), 'lakehouse.newest': rebuilt.newest}
    ) %}
{% endmacro %}

{#
  The summary of the states of a rebuild (fold.Rebuilt); the newest is that of all that is known:
  states, truncates, and what is remembered from before.
#}
{% macro _summary_of_rebuild(deleted_keys, states) %}
    {% set found = run_query('
        select
            count_if(_live),
            count_if(not _live),
            unix_micros(max(log_time)),
            unix_micros(max(time)),
            count_if(_is_reinserted),
            to_json(max(if(_is_reinserted, place, null)))
        from (
            select
                _live,
                _position.log_time,
                _max_occurred_at as time,
                _is_reinserted,
                struct(_position.topic, _position.partition, _position.offset) as place
            from ' ~ states ~ '
            union all
            select cast(null as boolean), position.log_time, max_occurred_at, false, null
            from ' ~ deleted_keys ~ '
            where scope in (' ~ dbt.table_scope(this) ~ ', ' ~ dbt.truncate_scope(this) ~ ')
        )
    ')[0] %}
    {% do return(
        adapter.rebuilt(found[0], found[1], adapter.newest(found[2], found[3]), found[4], found[5])
    ) %}
{% endmacro %}

{#
  What a rebuild of a table that is folded from a log would lose beside rows whose last event is
  gone: pairs of what it is and a query that counts it.

  Arguments:
      run: the NodeRun.
#}
{% macro losses_of_fold(run) %}
    {% set fold, losses, log = run.fold, [], run.upstreams[0] %}
    {% set held = adapter.get_columns_in_relation(this) | map(attribute='quoted') | list %}
    {% set columns = adapter.columns_kept(this, fold) %}
    {% if fold.keyless %}
        {% set columns = columns | reject('in', fold.beside) | list %}
        {% if columns %}
            {% do losses.append(('of its rows are', dbt._lost_copies_sql(fold, log, columns))) %}
        {% endif %}
        {% do return(losses) %}
    {% endif %}
    {% if fold.key | reject('in', held) | list %}
        {# Of another key: nothing that is held can be compared. #}
        {% do return(losses) %}
    {% endif %}
    {% if fold.may_leave and columns %}
        {% do losses.append(
            ('of its rows have values', dbt._unsaid_values_sql(fold, log, columns))
        ) %}
    {% endif %}
    {% if 'current_state' in config.get('meta') %}
        {% do losses.append((
            'of the deleted keys that it remembers are',
            dbt._lost_states_sql(fold, log, run.upstreams[1])
        )) %}
    {% endif %}
    {% do return(losses) %}
{% endmacro %}

{# How many rows have a value in a column that each event of their key leaves as it was. #}
{% macro _unsaid_values_sql(fold, log, columns) -%}
    {%- set key_list = fold.key | join(', ') -%}
select count(*)
from {{ this }} as own
inner join (
    select
        {{ key_list }},
        array(
            {%- for column in columns %}
            bool_and({{ dbt.is_unchanged(column) }}){{ ',' if not loop.last }}
            {%- endfor %}
        ) as _unsaid
    from {{ log }}
    where _operation in ('snapshot', 'insert', 'update', 'upsert')
    group by {{ key_list }}
) as said using ({{ key_list }})
where
    {%- for column in columns %}
    (own.{{ column }} is not null and _unsaid[{{ loop.index0 }}]){{ ' or' if not loop.last }}
    {%- endfor %}
{%- endmacro %}

{#
  How many states of absent keys are of events that neither the log nor the table of deletes without
  a set has.
#}
{% macro _lost_states_sql(fold, log, deleted_keys) -%}
select count(*)
from (
    select newest.topic, newest.partition, newest.offset
    from (
        select record_key, max(position) as newest
        from {{ deleted_keys }}
        where scope = {{ dbt.table_scope(this) }}
        group by record_key
    )
    -- One that lives again is remembered no longer.
    left anti join (select {{ dbt.record_key(fold.key) }} as record_key from {{ this }})
        using (record_key)
)
left anti join (
    select _position.topic, _position.partition, _position.offset from {{ log }}
    {%- if fold.namespace %}
    union all
    select _position.topic, _position.partition, _position.offset
    from {{ ref('set_less_deletes') }}
    {%- endif %}
) using (topic, partition, offset)
{%- endmacro %}

{#
  How many rows of a table without a key there are that the log does not give, up to the newest
  event that the table has a row of.
#}
{% macro _lost_copies_sql(fold, log, columns) -%}
    {%- set row = dbt.exact_json('struct(' ~ columns | join(', ') ~ ')') -%}
    {%- set read = '(select * from ' ~ log ~ ' where _position <= (select max(_position) from '
        ~ this ~ '))' -%}
select sum(greatest(held - coalesce(given, 0), 0))
from (select {{ row }} as _row, count(*) as held from {{ this }} group by 1)
left join (
    select {{ row }} as _row, count(*) as given
    from ({{ dbt.current_rows_sql(fold, read) }})
    group by 1
) using (_row)
{%- endmacro %}
