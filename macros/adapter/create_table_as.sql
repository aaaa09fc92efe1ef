{#
  Create or replace a table. Each table of the lake is an Iceberg table, so a replaced one keeps its
  earlier snapshots. dbt-spark does so only if `file_format` is iceberg, and otherwise requires that
  no table exists. It creates temporary relations, and those of other languages than SQL.
#}
{% macro lakehouse__create_table_as(temporary, relation, compiled_code, language='sql') -%}
    {%- if temporary or language != 'sql' -%}
        {{ spark__create_table_as(temporary, relation, compiled_code, language) }}
    {%- else -%}
        create or replace table {{ relation }}
        {%- if config.get('contract').enforced -%}
            {#- If types follow the source, only check_contract compares them with the contract. #}
            {%- if not adapter.follows(model) -%}
                {{ get_assert_columns_equivalent(compiled_code) }}
            {%- endif -%}
            {%- set compiled_code = get_select_subquery(compiled_code) -%}
        {%- endif %}
        using {{ config.get('file_format', 'iceberg') }}
        {{ options_clause() }}
        {#- The model's properties, and the declaration, which a rebuilt table has at once. #}
        {{ adapter.properties_clause(this, config.get('tblproperties')) }}
        {{ partition_cols(label='partitioned by') }}
        {{ clustered_cols(label='clustered by') }}
        {{ location_clause() }}
        {{ comment_clause() }}
        as
        {{ compiled_code }}
    {%- endif -%}
{%- endmacro %}
