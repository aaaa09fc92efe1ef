{# The number of rows of a relation. #}
{% macro count_rows(relation) %}
    {% do return(run_query('select count(*) from ' ~ relation)[0][0]) %}
{% endmacro %}

{#
  Which values of columns that are to be filled a table can't have yet, as a SQL condition.

  Arguments:
      to_fill: the columns with their types before, none for a new one.
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
