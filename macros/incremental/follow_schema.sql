{#
  Brings the columns of the running model's table up to those of the rows to be written: new ones are added, and a type
  is widened where Iceberg can do so without touching a file (int to bigint, float to double, a decimal to more digits of
  the same scale). Any other change of a type stops the run: `append_new_columns` alone would let it through, and the
  insert would cast in silence or fail.

  Arguments:
      staged: the temporary view with the rows.
#}
{% macro follow_schema(staged) %}
    {% do process_schema_changes(config.get('on_schema_change', 'append_new_columns'), staged, this) %}
    {% set held = {} %}
    {% for column in adapter.get_columns_in_relation(this) %}
        {% do held.update({column.name: column.dtype | lower}) %}
    {% endfor %}
    {% for column in adapter.get_columns_in_relation(staged) %}
        {% set old, new = held.get(column.name), column.dtype | lower %}
        {% if old and old != new and old != 'void' and new != 'void' %}
            {% if not _is_widening(old, new) %}
                {% do exceptions.raise_compiler_error(
                    this ~ '.' ~ column.name ~ ' is ' ~ old ~ ', and the model makes it ' ~ new ~ ', which does not hold'
                    ~ ' all of its values: keep the type, or build it anew with `dbt run --full-refresh -s '
                    ~ model.name ~ '+`'
                ) %}
            {% endif %}
            {% do run_query('alter table ' ~ this ~ ' alter column ' ~ column.quoted ~ ' type ' ~ new) %}
            {% do log(this ~ '.' ~ column.name ~ ': widened from ' ~ old ~ ' to ' ~ new, info=true) %}
        {% endif %}
    {% endfor %}
{% endmacro %}

{# Whether Iceberg can change a column from one type to another in place. #}
{% macro _is_widening(old, new) %}
    {% if old.startswith('decimal(') and new.startswith('decimal(') %}
        {% set digits, scale = old[8:-1].split(',') %}
        {% set new_digits, new_scale = new[8:-1].split(',') %}
        {% do return(scale | int == new_scale | int and digits | int <= new_digits | int) %}
    {% endif %}
    {% do return([old, new] in [['int', 'bigint'], ['float', 'double']]) %}
{% endmacro %}
