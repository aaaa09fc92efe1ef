{#
  The body of all our materializations: the class of the model's kind builds its table
  (dbt_lakehouse/build/kinds.py), and dbt does the usual steps around that.
#}
{% macro build_table() %}
    {{ run_hooks(pre_hooks) }}
    {% do apply_grants(this, config.get('grants'), should_revoke=false) %}
    {% set built = adapter.build(context) %}
    {{ write(built.statement) if built.statement }}
    {{ store_raw_result('main', message=built.message, code='OK', rows_affected='') }}
    {% do persist_docs(this, model) %}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [this]}) }}
{% endmacro %}

{% materialization append_only, adapter='lakehouse', supported_languages=['sql'] -%}
    {{ return(dbt.build_table()) }}
{%- endmaterialization %}

{% materialization change_log, adapter='lakehouse', supported_languages=['sql'] -%}
    {{ return(dbt.build_table()) }}
{%- endmaterialization %}

{% materialization current_state, adapter='lakehouse', supported_languages=['sql'] -%}
    {{ return(dbt.build_table()) }}
{%- endmaterialization %}

{% materialization history, adapter='lakehouse', supported_languages=['sql'] -%}
    {{ return(dbt.build_table()) }}
{%- endmaterialization %}

{% materialization other_events, adapter='lakehouse', supported_languages=['sql'] -%}
    {{ return(dbt.build_table()) }}
{%- endmaterialization %}

{% materialization state_table, adapter='lakehouse', supported_languages=['sql'] -%}
    {{ return(dbt.build_table()) }}
{%- endmaterialization %}
