{#
  How rows of dbt's `incremental` come to those that are there. dbt-spark appends where a model
  names no strategy, and merges only into tables whose `file_format` it knows. Here a `unique_key`
  alone merges, as with other adapters, and every table is Iceberg's. dbt-spark has no dispatch for
  this: of macros of one name, dbt takes the one of the adapter that depends on the other.
#}
{% macro dbt_spark_validate_get_incremental_strategy(raw_strategy, file_format) -%}
    {%- set default = 'merge' if config.get('unique_key') else 'append' -%}
    {%- set strategy = config.get('incremental_strategy') or default -%}
    {%- set known = ['append', 'merge', 'insert_overwrite', 'microbatch'] -%}
    {%- if strategy not in known -%}
        {{ exceptions.raise_compiler_error(
            'incremental_strategy is ' ~ strategy ~ ': it is one of ' ~ known | join(', ')
        ) }}
    {%- endif -%}
    {{ return(strategy) }}
{%- endmacro %}
