{#
  The columns that `on_schema_change` of dbt's `incremental` adds and removes. dbt-spark removes
  none, so `sync_all_columns` fails there; Iceberg drops a column without writing a file of rows.
#}
{% macro lakehouse__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
    {%- if remove_columns %}
        {%- do run_query(
            'alter table ' ~ relation ~ ' drop columns ('
            ~ remove_columns | map(attribute='quoted') | join(', ') ~ ')'
        ) %}
    {%- endif %}
    {%- if add_columns %}
        {%- set added = [] %}
        {%- for column in add_columns %}
            {%- do added.append(column.quoted ~ ' ' ~ column.data_type) %}
        {%- endfor %}
        {%- do run_query('alter table ' ~ relation ~ ' add columns (' ~ added | join(', ') ~ ')') %}
    {%- endif %}
{% endmacro %}
