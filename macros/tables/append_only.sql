{#
  dbt's `incremental` for Iceberg tables on Spark, in place of dbt-spark's. Strategies:

      append          (default) the model's rows are added; for logs. `unique_key` names
                      their position.
      merge           the model's rows replace those with the same `unique_key`.
      current_state   gold: the fold of a change log, see macros/fold/current_state.sql.
      refold          gold: other folds of a change log, see
                      macros/incremental/build_by_refolding.sql.

  Unlike dbt-spark's, a rebuild is `create or replace` (history is kept and readers see no
  gap), temporary views carry the schema in their names, and every strategy keeps
  watermarks (macros/incremental/watermarks.sql).
#}
{% materialization incremental, adapter='spark', supported_languages=['sql'] -%}
    {%- set strategy = config.get('incremental_strategy') or 'append' -%}
    {%- if strategy not in ['append', 'merge', 'current_state', 'refold'] -%}
        {%- do exceptions.raise_compiler_error(
            "incremental_strategy is '" ~ strategy ~ "': use append, merge, current_state or refold"
        ) -%}
    {%- endif -%}
    {%- if not config.get('unique_key') -%}
        {%- do exceptions.raise_compiler_error('an incremental model needs a unique_key') -%}
    {%- endif -%}
    {%- set existing = load_relation(this) -%}
    {%- set incremental = is_incremental() -%}
    {%- if not incremental and _can_go_on() and _reason_to_rebuild() -%}
        {%- do log(this ~ ': ' ~ _reason_to_rebuild(), info=true) -%}
    {%- endif -%}
    {%- set staged = make_temp_relation(this, '__dbt_tmp') -%}

    {{ run_hooks(pre_hooks) }}

    {%- if existing is not none and existing.is_view -%}
        {%- do adapter.drop_relation(existing) -%}
    {%- endif -%}
    {%- if strategy == 'current_state' -%}
        {%- do build_current_state(staged, incremental) -%}
    {%- elif strategy == 'refold' and incremental -%}
        {%- do build_by_refolding(staged) -%}
    {%- elif incremental and not has_news() and not has_new_declaration() -%}
        {%- if not model.depends_on.nodes -%}
            {#- Others write its rows. -#}
            {%- if _properties(this).get('lakehouse.shape') != _shape(sql) -%}
                {%- do follow_schema_of(staged, sql) -%}
                {%- do set_properties(this, {'lakehouse.shape': _shape(sql)}) -%}
            {%- endif -%}
        {%- endif -%}
        {%- call noop_statement('main', 'nothing new to read') -%}
            -- nothing new to read
        {%- endcall -%}
    {%- elif incremental -%}
        {%- set to_fill = follow_schema_of(staged, sql) -%}
        {%- if to_fill and config.get('meta', {}).get('change_log') -%}
            {%- do fill_change_log(to_fill) -%}
        {%- endif -%}
        {%- if strategy == 'append' and not _has_rows(staged) -%}
            {#- An empty commit would be news to all that read this table. -#}
            {%- call noop_statement('main', 'no rows to add') -%}
                -- no rows to add
            {%- endcall -%}
        {%- else -%}
            {%- call statement('main') -%}
                {{ _append_sql(staged) if strategy == 'append' else _merge_sql(staged) }}
            {%- endcall -%}
        {%- endif -%}
        {%- do save_watermarks() -%}
        {%- do forget_evaluated(staged.identifier) -%}
    {%- else -%}
        {%- set had_rows = existing is not none and config.get('meta', {}).get('change_log')
            and _is_not_empty(this) -%}
        {%- call statement('main') -%}
            {{ create_table_as(false, this, sql) }}
        {%- endcall -%}
        {%- if had_rows and not _is_not_empty(this) -%}
            {%- do exceptions.warn(
                this ~ ' had rows and has none any more: no event is of the source table,'
                ~ ' or the topic, that its model names'
            ) -%}
        {%- endif -%}
        {%- do save_watermarks(
            {'lakehouse.as_of': as_of_text()} if strategy == 'refold' else {}
        ) -%}
        {%- do forget_evaluated(staged.identifier) -%}
    {%- endif -%}
    {%- if _has_new_descriptions() -%}
        {%- do persist_docs(this, model) -%}
    {%- endif -%}

    {{ run_hooks(post_hooks) }}

    {{ return({'relations': [this]}) }}
{%- endmaterialization %}

{#
  Whether a column is described otherwise than in the table; persist_docs asks Spark for the columns
  at each run.
#}
{% macro _has_new_descriptions() %}
    {% set comments = _look(this).comments %}
    {% set new = [] %}
    {% for name, column in model.columns.items()
        if name in comments and comments[name] != column.description %}
        {% do new.append(name) %}
    {% endfor %}
    {% do return(new | length > 0) %}
{% endmacro %}

{#
  What a table that others write is made of: the model's SQL, and the columns that the table has.
#}
{% macro _shape(sql) %}
    {% do return(local_md5(sql ~ _look(this).comments.keys() | join(' '))) %}
{% endmacro %}

{#
  Whether there are staged rows. What reads a source, and thus all of it, is not asked: any payload
  is news, and to answer would take decoding some.
#}
{% macro _has_rows(staged) %}
    {% do return(model.refs | length == 0 or _is_not_empty(staged)) %}
{% endmacro %}

{# Whether a relation has a row. #}
{% macro _is_not_empty(relation) %}
    {% do return(run_query('select 1 from ' ~ relation ~ ' limit 1') | length > 0) %}
{% endmacro %}

{# Adds the staged rows, but those that a crashed run has already added. #}
{% macro _append_sql(staged) -%}
    {%- set columns = adapter.get_columns_in_relation(this)
        | map(attribute='quoted') | join(', ') -%}
    {%- set written = _properties(this).get('lakehouse.written', '0') | int -%}
    insert into {{ this }} ({{ columns }})
    select {{ columns }} from {{ staged }} as staged
    {%- if _table_state(this).sequence > written %}
    where not exists (
        select 1 from {{ this }} as already
        where already._last_updated_sequence_number > {{ written }}
        {%- for column in config.get('unique_key') %}
            and already.{{ adapter.quote(column) }} <=> staged.{{ adapter.quote(column) }}
        {%- endfor %}
    )
    {%- endif -%}
{%- endmacro %}

{% macro _merge_sql(staged) -%}
    merge into {{ this }} as target
    using {{ staged }} as source
    on
        {%- for column in config.get('unique_key') %}
        target.{{ adapter.quote(column) }}
        <=> source.{{ adapter.quote(column) }}{{ ' and' if not loop.last }}
        {%- endfor %}
    when matched then update set *
    when not matched then insert *
{%- endmacro %}
