{% materialization current_state, adapter='lakehouse', supported_languages=['sql'] -%}
    {%- if not adapter.run_of(this).fold.keyless -%}
        {% do return(dbt.build_table()) %}
    {%- endif -%}
    {%- set run = adapter.run_of(this) -%}
    {%- set fold = run.fold -%}
    {{ run_hooks(pre_hooks) }}
    {%- do adapter.check_contract(model, fold, fold.rows_columns) -%}
    {%- do dbt.prepare_table() -%}
    {%- do dbt.refuse_earlier_moment(run) -%}
    {%- if not run.is_incremental -%}
        {%- do dbt.refuse_loss(run) -%}
    {%- endif -%}
    {%- do dbt.refold(run, fold) -%}
    {%- do adapter.drop_evaluated(dbt.view_of('')) -%}
    {%- do persist_docs(this, model) -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [this]}) }}
{%- endmaterialization %}

{# An expired row is gone from gold, so judging it at an earlier moment takes a rebuild. #}
{% macro refuse_earlier_moment(run) %}
    {% set last = run.noted('lakehouse.as_of') if run.fold.namespace %}
    {% if last and dbt.as_of_text() < last %}
        {% do exceptions.raise_compiler_error(
            'vars.as_of is ' ~ dbt.as_of_text() ~ ', but ' ~ this ~ ' has been built as of ' ~ last
            ~ ': rows that expired in between can only come back with --full-refresh'
        ) %}
    {% endif %}
{% endmacro %}
