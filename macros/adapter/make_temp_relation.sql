{#
  Name of a temporary view, which contains the schema. Temporary views have no schema of their own,
  and with dbt-spark's names two models with the same alias in different schemas share one view:
  with several threads, rows of one get into the other.
#}
{% macro lakehouse__make_temp_relation(base_relation, suffix) %}
    {% set name = base_relation.schema ~ '__' ~ base_relation.identifier ~ suffix %}
    {{ return(
        base_relation.incorporate(path={'identifier': name}).include(database=false, schema=false)
    ) }}
{% endmacro %}
