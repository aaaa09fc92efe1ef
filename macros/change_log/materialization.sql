{#
  A typed change log (change_log, aerospike_change_log): append_only, but columns that are declared
  later are filled from earlier events, rows of key updates get values of the old key's row, and
  messages with a key of other columns than declared stop it before anything is written
  (dbt_lakehouse/dbt/message_keys.py). A wider type is declared by hand, or follows what the rows
  had no place for.
#}
{% materialization change_log, adapter='lakehouse', supported_languages=['sql'] -%}
    {%- set run = adapter.run_of(this) -%}
    {%- set log = config.get('meta').change_log -%}
    {%- if should_full_refresh() -%}
        {%- do adapter.forget_followed(this) -%}
    {%- else -%}
        {%- set log = adapter.followed(log, this) -%}
    {%- endif -%}
    {{ run_hooks(pre_hooks) }}
    {%- do dbt.prepare_table() -%}
    {%- if not run.is_incremental -%}
        {%- do dbt.refuse_loss(run) -%}
        {%- set had_rows = load_relation(this) is not none and adapter.may_have_rows(this, []) -%}
        {%- do adapter.hold_to_key(
            this, log, sql, dbt._replace_log, dbt._former_log, dbt.events_of_log
        ) -%}
        {%- if had_rows and not adapter.may_have_rows(this, []) -%}
            {%- do exceptions.warn(
                this ~ ' had rows and has none any more: no event is of the source table,'
                ~ ' or the topic, that its model names'
            ) -%}
        {%- endif -%}
    {%- elif not run.has_news -%}
        {%- do dbt.nothing_to_do() -%}
    {%- else -%}
        {%- if run.is_declared_anew -%}
            {%- do adapter.follow_schema(this, sql) -%}
        {%- endif -%}
        {%- if run.to_fill -%}
            {%- do adapter.begin_key_updates_anew(this) -%}
            {%- do dbt.fill_change_log(run, log) -%}
        {%- endif -%}
        {%- if run.has_news_of(run.upstreams[0]) or run.has_news_of(run.upstreams[1]) -%}
            {%- do adapter.hold_to_key(
                this, log, sql, dbt._append_to_log, dbt._former_log, dbt.events_of_log
            ) -%}
        {%- else -%}
            {%- do adapter.note(this) -%}
            {%- do dbt.nothing_to_do('columns filled') -%}
        {%- endif -%}
    {%- endif -%}
    {%- if run.truncate_ties -%}
        {%- do dbt.log_info(
            this ~ ': ' ~ run.truncate_ties ~ ' rows have the Kafka timestamp of a truncate in'
            ~ ' another partition. Their source says no order, so they count as later ones and stay'
        ) -%}
        {%- do dbt.add_counters(dbt.table_scope(this), {'truncate_ties': run.truncate_ties}) -%}
    {%- endif -%}
    {%- set doubt = adapter.doubt_of_keys(this, log) -%}
    {%- if doubt -%}
        {%- do exceptions.warn(doubt) -%}
    {%- endif -%}
    {%- do dbt.take_over_values(log) -%}
    {%- do dbt.follow_widening(log, run.upstreams) -%}
    {%- do persist_docs(this, model) -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [this]}) }}
{%- endmaterialization %}

{# Makes the running change log anew of the query of its rows. #}
{% macro _replace_log(query) %}
    {% do dbt.replace_table(adapter.observed(this, query, dbt._leaving())) %}
{% endmacro %}

{# The query of its rows where events with other keys come before all others. #}
{% macro _former_log(run, log, keys, former) %}
    {% set events = dbt.typed_events(dbt.events_of_log(run, log), log, keys, former) %}
    {% do return(dbt.change_log_sql(log, events, keys, run.places, former)) %}
{% endmacro %}

{# Adds the rows of a query to the running change log. #}
{% macro _append_to_log(query) %}
    {% do dbt.append_rows(adapter.observed(this, query, dbt._leaving())) %}
{% endmacro %}

{# What is counted of the rows while they are written. #}
{% macro _leaving() %}
    {% set log = config.get('meta').change_log %}
    {% do return(
        {'leaving': 'count_if(size(_unchanged_columns) > 0)'} if log.key or log.partial else none
    ) %}
{% endmacro %}
