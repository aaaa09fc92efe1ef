{#
  Builds a gold table from its whole log: the rebuild of the materialization `current_state`.

  Arguments:
      run: the NodeRun.
      fold: the Fold.
#}
{% macro _rebuild(run, fold) %}
    {% set changes, deleted_keys = run.upstreams %}
    {% set log = pinned(changes, run.snapshot_of(changes)) %}
    {% set has_truncates = may_meet_truncates(run, fold) %}
    {% set truncates = find_truncates(run, fold, log, none) if has_truncates else [] %}
    {% set deletes = ref('set_less_deletes') if fold.namespace %}
    {# To find out whose they are, Spark sends all keys of the log to where the deletes are. #}
    {% if deletes and not adapter.may_have_rows(deletes, [('_namespace', '=', fold.namespace)]) %}
        {% set deletes = none %}
    {% endif %}
    {% set events = all_events_sql(fold, log, deletes, none, has_truncates) %}
    {% do adapter.define(view_of('events'), events) %}
    {% do remember_truncates(deleted_keys, truncates, rebuild=true) %}
    {# States of this table that are remembered may have to go back, which takes all keys. #}
    {% set ended = none %}
    {% if not adapter.may_have_rows(
        deleted_keys, [('scope', '=', this.schema ~ '.' ~ this.identifier)]
    ) %}
        {% set ended = view_of('ended') %}
    {% endif %}
    {% if not ended
        or adapter.evaluate(ended, _ended_keys(fold, log, deletes, has_truncates)) > 0 %}
        {# Without their columns: to fold them takes a fraction of what it takes with them. #}
        {% set keys_only = fold.without_columns() %}
        {% set events_of_keys = all_events_sql(keys_only, log, deletes, ended, has_truncates) %}
        {% set states_of_keys %}
            ({{ fold_sql(
                keys_only, '(' ~ events_of_keys ~ ')', view_of('truncates') if truncates
            ) }} select * from states)
        {% endset %}
        {% do remember_absent_keys(fold, deleted_keys, states_of_keys, refolded=true) %}
        {% if not ended %}
            {% do _forget_unknown_keys(
                fold, deleted_keys, log_events_sql(keys_only, log, deletes)
            ) %}
        {% endif %}
    {% endif %}
    {# In the order of keys, so that a run can pass over the files of those
       that it does not touch. #}
    {% set key_list = fold.key | join(', ') %}
    {# By the number of keys: by the size of the log, as Spark does it, many changes of each make
       many small files. The fold takes the ranges as they are, so all is shuffled once, where
       `order by` would shuffle again. #}
    {% do adapter.define(
        view_of('events'),
        'select /*+ repartition_by_range(' ~ adapter.ranges_to_write(log, fold.key) ~ ', '
        ~ key_list ~ ') */ * from (' ~ events ~ ')'
    ) %}
    {% do replace_table(
        gold_rows_sql(fold) ~ ' sort by ' ~ key_list, {'lakehouse.as_of': as_of_text()}
    ) %}
    {# It was not known before. #}
    {% do adapter.note(this, {'lakehouse.newest': newest_of_table(deleted_keys)}) %}
{% endmacro %}

{# The keys of a log with an event after which there is no row: no others can end absent. #}
{% macro _ended_keys(fold, log, deletes, has_truncates) -%}
    {%- set key_list = fold.key | join(', ') -%}
select {{ key_list }} from {{ log }} as log
where
    (_operation = 'delete'{{ ' or _expires_at <= ' ~ as_of() if fold.namespace }})
    {%- for column in fold.key %}
    and {{ column }} is not null
    {%- endfor %}
    {%- if fold.several_sources and has_truncates %}
union
select {{ key_list }} from {{ log }} as log
left semi join ({{ truncates_sql(fold, log) }}) as truncates
    on log._source = truncates._source and log._position < truncates._position
where {{ fold.key[0] }} is not null
    {%- endif %}
    {%- if not fold.namespace %}
union
select
    {% for column in fold.key %}
    _previous_key.{{ column }}{{ ', ' if not loop.last }}
    {% endfor %}
from {{ log }} as log
where
    {% for column in fold.key %}
    _previous_key.{{ column }} is not null{{ ' and ' if not loop.last }}
    {% endfor %}
    {%- endif %}
    {%- if deletes %}
union
select _digest from {{ log }} as log
left semi join (
    select _digest from {{ deletes }}
    where _namespace = {{ sql_text(fold.namespace) }}
) using (_digest)
    {%- endif %}
{%- endmacro %}

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
        {% if columns %}
            {% do losses.append(('of its rows are', _lost_copies_sql(fold, log, columns))) %}
        {% endif %}
        {% do return(losses) %}
    {% endif %}
    {% if fold.key | reject('in', held) | list %}
        {# Of another key: nothing that is held can be compared. #}
        {% do return(losses) %}
    {% endif %}
    {% if fold.may_leave and columns %}
        {% do losses.append(('of its rows have values', _unsaid_values_sql(fold, log, columns))) %}
    {% endif %}
    {% if 'current_state' in config.get('meta') %}
        {% do losses.append((
            'of the deleted keys that it remembers are',
            _lost_states_sql(fold, log, run.upstreams[1])
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
            bool_and({{ is_unchanged(column) }}){{ ',' if not loop.last }}
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
    select position.topic, position.partition, position.offset
    from {{ deleted_keys }}
    -- One that lives again is remembered no longer.
    left anti join (select {{ record_key(fold.key) }} as record_key from {{ this }})
        using (record_key)
    where scope = {{ table_scope(this) }}
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
    {%- set row = exact_json('struct(' ~ columns | join(', ') ~ ')') -%}
    {%- set read = '(select * from ' ~ log ~ ' where _position <= (select max(_position) from '
        ~ this ~ '))' -%}
select sum(greatest(held - coalesce(given, 0), 0))
from (select {{ row }} as _row, count(*) as held from {{ this }} group by 1)
left join (
    select {{ row }} as _row, count(*) as given
    from ({{ current_rows_sql(fold, read) }})
    group by 1
) using (_row)
{%- endmacro %}
