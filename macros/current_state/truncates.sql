{#
  The truncates of a log: `_position`, `_time`, and in a log of several source tables `_source`,
  which one it is that was emptied.

  Arguments:
      changes: the log to select from.
#}
{% macro truncates_sql(fold, changes) -%}
    select
        _position,
        {{ dbt.known_time('_occurred_at', '_kafka_timestamp') }} as _time
        {{- ', _source' if fold.several_sources }}
    from {{ changes }} as changes
    -- A truncate has no key; by that, statistics spare the files without any.
    where {{ fold.key[0] }} is null and _operation = 'truncate'
{%- endmacro %}

{#
  Whether a run may meet a truncate, new or remembered; what is known of the files answers that.

  Arguments:
      run: the NodeRun.
#}
{% macro may_meet_truncates(run, fold) %}
    {% if fold.namespace %}
        {% do return(false) %}
    {% endif %}
    {% set log, deleted_keys = run.upstreams %}
    {% set has_new = adapter.may_have_new_rows(run, log, [
        (fold.key[0].strip('`'), 'is null', none)
    ]) %}
    {% do return(has_new or (run.is_incremental and dbt._may_remember_truncates(deleted_keys))) %}
{% endmacro %}

{% macro _may_remember_truncates(deleted_keys) %}
    {% do return(adapter.may_have_rows(
        deleted_keys, [('scope', '=', 'truncated:' ~ this.schema ~ '.' ~ this.identifier)]
    )) %}
{% endmacro %}

{#
  The newest truncates of a run, one for each source table: remembered ones and those among new rows
  of the log; a view, and the same as a list of {position, time, source, is_new}, all but the last
  as SQL literals. Of a log of several source tables, the earliest new one of each too: a row that a
  later one leaves alone, because it is another table's by then, may rest on what that took away.

  Arguments:
      run: the NodeRun.
      log: the new rows of the log, as SQL of a relation.
      remembered: `deleted_keys` as it is to be read, or none for a rebuild.
#}
{% macro find_truncates(run, fold, log, remembered) %}
    {% set source = 'to_json(_source)' if fold.several_sources else "''" %}
    {% set truncates = adapter.truncates_in('
        with found as (
            select _position, _time, ' ~ source ~ ' as _source, true as _is_new
            from (' ~ dbt.truncates_sql(fold, log) ~ ')'
            ~ ('' if not remembered else '
            union all
            select position, max_occurred_at, record_key, false
            from ' ~ remembered ~ ' where scope = ' ~ dbt.truncate_scope(this)) ~ '
        ),

        chosen as (
            select
                _source,
                max_by(struct(_position, _time, _is_new), struct(_position, _is_new)) as chosen
            from found
            group by _source'
            ~ ('' if not (remembered and fold.several_sources) else '
            union
            select _source, min_by(struct(_position, _time, _is_new), _position)
            from found
            where _is_new
            group by _source') ~ '
        )

        select
            _source as source,
            struct(
                chosen._position.topic as topic,
                chosen._position.partition as partition,
                chosen._position.offset as offset,
                chosen._position.event_index as event_index
            ) as position,
            unix_micros(chosen._position.log_time) as log_time,
            unix_micros(chosen._time) as time,
            chosen._is_new as is_new
        from chosen
    ') %}
    {% do adapter.define(dbt.view_of('truncates'), dbt._truncates_values(fold, truncates)) %}
    {% do return(truncates) %}
{% endmacro %}

{% macro _truncates_values(fold, truncates) -%}
    {% if truncates -%}
    select
        _position,
        _time
        {%- if fold.several_sources %},
        from_json(source, 'database string, schema string, table string') as _source
        {%- endif %}
    from values {{ dbt._truncate_rows(truncates) }} as truncates (source, _position, _time)
    {%- else -%}
    select
        cast(null as {{ dbt.position_type() }}) as _position,
        cast(null as timestamp) as _time
        {{- ', cast(null as struct<database: string, schema: string, table: string>) as _source'
            if fold.several_sources }}
    where false
    {%- endif %}
{%- endmacro %}

{# Truncates as rows of SQL: the source as JSON, the position, the time. #}
{% macro _truncate_rows(truncates) -%}
    {%- for each in truncates %}
    ({{ dbt.sql_text(each.source) }}, {{ each.position }}, {{ each.time }})
    {{- ',' if not loop.last }}
    {%- endfor %}
{%- endmacro %}

{#
  Keeps truncates of the running model's table, for events that come after them, or late. A
  rebuild keeps those of the log and no others: what the log has may have been declared anew.

  Arguments:
      truncates: as of find_truncates.
      rebuild: whether they are all of the log.
#}
{% macro remember_truncates(deleted_keys, truncates, rebuild=false) %}
    {% if truncates %}
        {% do adapter.refuse_overtaken(this) %}
    {% endif %}
    {% if rebuild and dbt._may_remember_truncates(deleted_keys) %}
        {% do run_query(
            'delete from ' ~ deleted_keys ~ ' where scope = ' ~ dbt.truncate_scope(this)
        ) %}
    {% endif %}
    {% set new = truncates | selectattr('is_new') | list %}
    {% if new %}
        {% do run_query('
            merge into ' ~ deleted_keys ~ ' as target
            using (
                select record_key, max(position) as position, max_by(time, position) as time
                from values ' ~ dbt._truncate_rows(new) ~ '
                as truncates (record_key, position, time)
                group by record_key
            ) as source
            on target.scope = ' ~ dbt.truncate_scope(this) ~ '
            and target.record_key = source.record_key
            when matched and target.position < source.position then update set
                max_occurred_at = source.time,
                position = source.position,
                recorded_at = ' ~ dbt.as_of() ~ '
            when not matched then insert
                (scope, record_key, max_occurred_at, position, null_position, recorded_at)
            values (
                ' ~ dbt.truncate_scope(this) ~ ', source.record_key, source.time, source.position,
                null, ' ~ dbt.as_of() ~ '
            )
        ') %}
    {% endif %}
{% endmacro %}

{#
  SQL of the keys with a state behind one of some new truncates: it comes late, so what they are may
  rest on what it took away.

  Arguments:
      log, gold, remembered: relations to select from.
      truncates: the new ones of find_truncates, at least one.
#}
{% macro keys_behind_truncates_sql(fold, log, gold, remembered, truncates) -%}
    {%- set key_list = fold.key | join(', ') -%}
    {%- set positions = truncates | map(attribute='position') | list -%}
    {%- set position = positions[0] if positions | length == 1
        else 'least(' ~ positions | join(', ') ~ ')' -%}
select {{ key_list }} from {{ gold }} where _position > {{ position }}
union
-- Only the log has the columns of an absent key.
select {{ key_list }}
from (select {{ key_list }}, {{ dbt.record_key(fold.key) }} as _record_key from {{ log }})
left semi join (
    select record_key as _record_key from {{ remembered }}
    where scope = {{ dbt.table_scope(this) }} and position > {{ position }}
) using (_record_key)
{%- endmacro %}

{# The type of a position in the log. #}
{% macro position_type() -%}
    struct<log_time: timestamp, topic: string, partition: int, offset: bigint, event_index: int>
{%- endmacro %}
