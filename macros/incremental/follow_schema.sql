{#
  Brings the columns of the running model's table up to those of the rows to be written: new ones
  are added, and a type is widened where Iceberg can do so without touching a file (int to
  bigint, float to double, a decimal to more digits of the same scale). Any other change of a
  type stops the run: `append_new_columns` alone would let it through, and the insert would cast
  in silence or fail.

  Returns the columns whose values in the table's rows are still to be filled in, with their old
  types (none for a new column). The table remembers them until the end of a run.

  Arguments:
      staged: the temporary view with the rows, or another with the same columns.
#}
{% macro follow_schema(staged) %}
    {% set remembered = _properties(this).get('lakehouse.to_fill', '{}') %}
    {% set to_fill = fromjson(remembered) %}
    {% set held = {} %}
    {% for column in adapter.get_columns_in_relation(this) %}
        {% do held.update({column.name: column.dtype | lower}) %}
    {% endfor %}
    {% set widened, given = [], {} %}
    {% for column in adapter.get_columns_in_relation(staged) %}
        {% set old, new = held.get(column.name), column.dtype | lower %}
        {% do given.update({column.name: new}) %}
        {% if old is none %}
            {% do to_fill.update({column.name: none}) %}
        {% elif old != new and old != 'void' and new != 'void' %}
            {% if not is_widening(old, new) %}
                {% do exceptions.raise_compiler_error(
                    this ~ '.' ~ column.name ~ ' is ' ~ old ~ ', and the model makes it ' ~ new
                    ~ ', which does not hold all of its values: keep the type, or build it anew'
                    ~ ' with `dbt run --full-refresh -s ' ~ model.name ~ '+`'
                ) %}
            {% endif %}
            {% do to_fill.update({column.name: old}) %}
            {% do widened.append(column) %}
        {% endif %}
    {% endfor %}
    {# Before the columns: a run that dies in between must not forget them. #}
    {% if tojson(to_fill) != remembered %}
        {% do set_properties(this, {'lakehouse.to_fill': tojson(to_fill)}) %}
    {% endif %}
    {# dbt's macro asks for both relations' columns again. #}
    {% if given != held %}
        {% do process_schema_changes(
            config.get('on_schema_change', 'append_new_columns'), staged, load_relation(this)
        ) %}
    {% endif %}
    {% for column in widened %}
        {% set new = column.dtype | lower %}
        {% do run_query(
            'alter table ' ~ this ~ ' alter column ' ~ column.quoted ~ ' type ' ~ new
        ) %}
        {% do log(
            this ~ '.' ~ column.name ~ ': widened from ' ~ held[column.name] ~ ' to ' ~ new,
            info=true
        ) %}
    {% endfor %}
    {% do return(to_fill) %}
{% endmacro %}

{# follow_schema for the columns of a query. #}
{% macro follow_schema_of(staged, query) %}
    {% call statement('stage') %}
        {{ create_temporary_view(staged, query) }}
    {% endcall %}
    {% do return(follow_schema(staged)) %}
{% endmacro %}

{#
  Which values of columns that are to be filled the table can't have yet, as a SQL condition.

  Arguments:
      to_fill: as follow_schema returns them.
      relation: the alias of a relation with the columns.
#}
{% macro is_to_be_filled(to_fill, relation) -%}
    (
        {%- for name, old in to_fill.items() %}
        {%- set column = relation ~ '.' ~ adapter.quote(name) %}
        {% if old is none -%}
        {{ column }} is not null
        {%- else -%}
        not {{ column }} <=> try_cast({{ column }} as {{ old }})
        {%- endif %}
        {{- ' or' if not loop.last }}
        {%- endfor %}
    )
{%- endmacro %}

{# Whether Iceberg can change a column from one type to another in place. #}
{% macro is_widening(old, new) %}
    {% if old.startswith('decimal(') and new.startswith('decimal(') %}
        {% set digits, scale = old[8:-1].split(',') %}
        {% set new_digits, new_scale = new[8:-1].split(',') %}
        {% do return(scale | int == new_scale | int and digits | int <= new_digits | int) %}
    {% endif %}
    {% do return([old, new] in [['int', 'bigint'], ['float', 'double']]) %}
{% endmacro %}
