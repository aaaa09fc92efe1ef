{#
  Writes the column descriptions that differ from the table's, all in one statement. dbt-spark
  alters each column at each run: a commit and a metadata file for every column of every model,
  though nothing changed.
#}
{% macro spark__alter_column_comment(relation, column_dict) %}
    {% set comments = _look(relation).comments %}
    {% set changes = [] %}
    {% for name, column in column_dict.items() %}
        {% if name in comments and comments[name] != column.description %}
            {% set text = column.description | replace('\\', '\\\\') | replace("'", "\\'") %}
            {% do changes.append(adapter.quote(name) ~ " comment '" ~ text ~ "'") %}
        {% endif %}
    {% endfor %}
    {% if changes %}
        {% do run_query('alter table ' ~ relation ~ ' alter column ' ~ changes | join(', ')) %}
    {% endif %}
{% endmacro %}
