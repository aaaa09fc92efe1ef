{#
  What all of our materializations are: the model's table is built by the class of its kind
  (dbt_lakehouse/build/kinds.py), and dbt does what it does around it.
#}
{% macro build_table() %}
    {{ run_hooks(pre_hooks) }}
    {% do apply_grants(this, config.get('grants'), should_revoke=false) %}
    {% set existing = load_relation(this) %}
    {% if existing is not none and existing.is_view %}
        {% do adapter.drop_relation(existing) %}
    {% endif %}
    {% set built = adapter.build(this, model, sql, dbt.as_of_text(), create_table_as) %}
    {% if built.statement %}
        {{ write(built.statement) }}
    {% endif %}
    {% do store_raw_result('main', message=built.message, code='OK', rows_affected='') %}
    {% for doubt in built.doubts %}
        {% do exceptions.warn(doubt) %}
    {% endfor %}
    {% do persist_docs(this, model) %}
    {{ run_hooks(post_hooks) }}
    {% do return({'relations': [this]}) %}
{% endmacro %}

{% materialization append_only, adapter='lakehouse', supported_languages=['sql'] -%}
    {% do return(dbt.build_table()) %}
{%- endmaterialization %}

{% materialization current_state, adapter='lakehouse', supported_languages=['sql'] -%}
    {% do return(dbt.build_table()) %}
{%- endmaterialization %}

{% materialization history, adapter='lakehouse', supported_languages=['sql'] -%}
    {% do return(dbt.build_table()) %}
{%- endmaterialization %}

{% materialization state_table, adapter='lakehouse', supported_languages=['sql'] -%}
    {% do return(dbt.build_table()) %}
{%- endmaterialization %}
