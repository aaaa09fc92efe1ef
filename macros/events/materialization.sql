{% materialization other_events, adapter='lakehouse', supported_languages=['sql'] -%}
    {% do return(dbt.build_table()) %}
{%- endmaterialization %}
