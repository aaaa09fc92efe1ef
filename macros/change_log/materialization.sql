{#
  A typed change log (change_log, aerospike_change_log): append_only, but columns that are declared
  later are filled from earlier events, and rows of key updates get values of the old key's row.
#}
{% materialization change_log, adapter='lakehouse', supported_languages=['sql'] -%}
    {%- set run, log = adapter.run_of(this), config.get('meta').change_log -%}
    {{ run_hooks(pre_hooks) }}
    {%- do prepare_table() -%}
    {%- set leaving = {'leaving': 'count_if(size(_unchanged_columns) > 0)'}
        if log.key or log.partial else none -%}
    {%- if not run.is_incremental -%}
        {%- do refuse_loss(run) -%}
        {%- set had_rows = load_relation(this) is not none and adapter.may_have_rows(this, []) -%}
        {%- do replace_table(adapter.observed(this, sql, leaving)) -%}
        {%- if had_rows and not adapter.may_have_rows(this, []) -%}
            {%- do exceptions.warn(
                this ~ ' had rows and has none any more: no event is of the source table,'
                ~ ' or the topic, that its model names'
            ) -%}
        {%- endif -%}
    {%- elif not run.has_news -%}
        {%- do nothing_to_do() -%}
    {%- else -%}
        {%- if run.is_declared_anew -%}
            {%- do adapter.follow_schema(this, sql) -%}
        {%- endif -%}
        {%- if run.to_fill -%}
            {%- do adapter.begin_key_updates_anew(this) -%}
            {%- do fill_change_log(run, log) -%}
        {%- endif -%}
        {%- if run.has_news_of(run.upstreams[0]) -%}
            {%- do append_rows(adapter.observed(this, sql, leaving)) -%}
            {%- else -%}
            {%- do adapter.note(this) -%}
            {%- do nothing_to_do('columns filled') -%}
        {%- endif -%}
    {%- endif -%}
    {%- do take_over_values(log) -%}
    {%- do persist_docs(this, model) -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [this]}) }}
{%- endmaterialization %}
