{#
  The columns that `on_schema_change` of dbt's `incremental` adds and removes. dbt-spark removes
  none, so `sync_all_columns` fails there; Iceberg drops a column without writing a file of rows.
#}
{% macro lakehouse__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
    {% if remove_columns %}
        {% call statement() %}
            alter table {{ relation }}
            drop columns ({{ remove_columns | map(attribute='quoted') | join(', ') }})
        {% endcall %}
    {% endif %}
    {% if add_columns %}
        {% call statement() %}
            alter table {{ relation }} add columns (
                {% for column in add_columns %}
                {{ column.quoted }} {{ column.data_type }} {{ ',' if not loop.last }}
                {% endfor %}
            )
        {% endcall %}
    {% endif %}
{% endmacro %}
