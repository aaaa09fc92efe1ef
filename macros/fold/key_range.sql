{#
  A condition that holds for all rows of the keys that a run touches: the range of the first key column, which
  adapter.hold_key_range (dbt_lakehouse/key_ranges.py) has kept.

  Arguments:
      column: the column, as SQL.
      name: the name under which the range is kept.
#}
{% macro is_in_key_range(column, name) -%}
    {{ column }} between :{{ name }}_low and :{{ name }}_high
{%- endmacro %}
