{#
  A condition that holds for all rows of the keys that a run touches: the ranges of the first key
  column, which adapter.hold_key_ranges (dbt_lakehouse/dbt/key_ranges.py) has kept.

  Arguments:
      column: the column, as SQL.
      name: the name under which the ranges are kept.
      ranges: how many there are; none, and the condition is true.
#}
{% macro is_in_key_ranges(column, name, ranges) -%}
    (
    {%- for number in range(ranges) -%}
        {{ column }} between :{{ name }}_low_{{ number }} and :{{ name }}_high_{{ number }}
        {{- ' or ' if not loop.last }}
    {%- else -%}
        true
    {%- endfor -%}
    )
{%- endmacro %}
