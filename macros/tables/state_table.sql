{#
  A table of the lake's own state, which other models write to: made with the columns that its
  description has, and never made anew. A model that reads something (`new_rows`) has its rows
  merged into the table by `unique_key`.
#}
{% materialization state_table, adapter='lakehouse', supported_languages=['sql'] -%}
    {%- set run = adapter.run_of(this) if model.refs else none -%}
    {{ run_hooks(pre_hooks) }}
    {%- do dbt.prepare_table() -%}
    {%- do adapter.own_table(model.name) -%}
    {%- if run is none or not run.has_news -%}
        {%- do dbt.nothing_to_do() -%}
    {%- else -%}
        {%- set merge -%}
            merge into {{ this }} as target
            using ({{ sql }}) as source
            on
                {%- for column in config.get('unique_key') %}
                target.{{ column }} <=> source.{{ column }}{{ ' and' if not loop.last }}
                {%- endfor %}
            when matched then update set *
            when not matched then insert *
        {%- endset -%}
        {{ write(merge) }}
        {%- do dbt.record_result(adapter.write_table(this, merge)) -%}
    {%- endif -%}
    {%- do persist_docs(this, model) -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [this]}) }}
{%- endmaterialization %}
