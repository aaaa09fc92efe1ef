{#
  How dbt's `incremental` adds rows to a table. dbt-spark appends if a model names no strategy, and
  merges only into tables whose `file_format` it knows. Here a `unique_key` is enough for a merge,
  as with other adapters, and every table is an Iceberg table. dbt-spark has no dispatch for this:
  of two macros of one name, dbt takes that of the adapter that depends on the other.
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
