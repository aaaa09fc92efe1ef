{#
  Writes the column descriptions that differ from the table's, in one commit. dbt-spark alters each
  column at each run: a commit and a metadata file for every column of every model, though nothing
  changed.
#}
{% macro lakehouse__alter_column_comment(relation, column_dict) %}
    {% do adapter.describe_columns(relation, column_dict) %}
{% endmacro %}
