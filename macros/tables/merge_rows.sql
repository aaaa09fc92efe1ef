{#
  A MERGE that makes rows of the running model's table what a relation has them to be; equal ones
  stay as they are.

  Arguments:
      source: the relation, with `columns` and `is_there`.
      key: the quoted columns by which rows are the same.
      columns: the table's quoted columns.
      is_there: the relation's column that says whether the row is to be there.
      is_changed: SQL over target and source, whether a row that is there has changed.
      is_near: SQL over target that holds for all rows with one of the keys:
          what spares a look at the others.
#}
{% macro merge_rows_sql(source, key, columns, is_there, is_changed, is_near) -%}
    merge into {{ this }} as target
    using {{ source }} as source
    on
        {%- for column in key %}
        target.{{ column }} <=> source.{{ column }} and
        {%- endfor %}
        {{ is_near }}
    when matched and not source.{{ is_there }} then delete
    when matched and ({{ is_changed }}) then update set
        {{ dbt.set_columns(columns) | indent(8) }}
    when not matched and source.{{ is_there }} then insert
        ({{ columns | join(', ') }})
    values (source.{{ columns | join(', source.') }})
{%- endmacro %}

{# The assignments of an update that takes columns over. #}
{% macro set_columns(columns) -%}
    {%- for column in columns -%}
    {{ column }} = source.{{ column }}{{ ',\n' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}

{# Whether target and source differ in a column: of any type, and null is like null. #}
{% macro columns_differ(columns) -%}
    {{ dbt.exact_json('struct(target.' ~ columns | join(', target.') ~ ')') }}
    <> {{ dbt.exact_json('struct(source.' ~ columns | join(', source.') ~ ')') }}
{%- endmacro %}
