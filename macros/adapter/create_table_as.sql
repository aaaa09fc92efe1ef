{#
  Makes a table anew. Each of the lake's is Iceberg's and is replaced: its earlier
  snapshots stay. dbt-spark does so only where `file_format` says iceberg, and else wants no table
  to be there. What is temporary, or not of SQL, it makes.
#}
{% macro lakehouse__create_table_as(temporary, relation, compiled_code, language='sql') -%}
    {%- if temporary or language != 'sql' -%}
        {{ spark__create_table_as(temporary, relation, compiled_code, language) }}
    {%- else -%}
        create or replace table {{ relation }}
        {%- if config.get('contract').enforced -%}
            {#- Where types follow the source, check_contract alone holds them against it. #}
            {%- if not adapter.follows(model) -%}
                {{ get_assert_columns_equivalent(compiled_code) }}
            {%- endif -%}
            {%- set compiled_code = get_select_subquery(compiled_code) -%}
        {%- endif %}
        using {{ config.get('file_format', 'iceberg') }}
        {{ options_clause() }}
        {{ tblproperties_clause() }}
        {{ partition_cols(label='partitioned by') }}
        {{ clustered_cols(label='clustered by') }}
        {{ location_clause() }}
        {{ comment_clause() }}
        as
        {{ compiled_code }}
    {%- endif -%}
{%- endmacro %}
