{% materialization change_log, adapter='lakehouse', supported_languages=['sql'] -%}
    {% do return(dbt.build_table()) %}
{%- endmaterialization %}
