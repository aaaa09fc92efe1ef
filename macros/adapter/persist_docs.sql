{#
  Write the descriptions of a model and its columns to its table where they differ, with at most one
  commit each. dbt-spark writes a table's description only when it creates the table, and alters
  each column in each run: a commit and a metadata file for every column of every model, without any
  change. A view keeps the descriptions that it was created with.
#}
{% macro lakehouse__persist_docs(relation, model, for_relation, for_columns) %}
    {% set for_relation = for_relation and config.persist_relation_docs() %}
    {% set for_columns = for_columns and config.persist_column_docs() %}
    {% do relation.is_view or adapter.describe_table(relation, model, for_relation, for_columns) %}
{% endmacro %}
