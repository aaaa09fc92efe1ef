{#
  The rows that a query has found, to select from.

  Arguments:
      query: the query.
      found: its rows, of texts and numbers, by their columns; none for a relation without rows.
#}
{% if found %}
(select * from values
    {% for row in found %}
    (
        {%- for value in row.values() -%}
        {{ value | literal if value is string else value }}{{ ', ' if not loop.last }}
        {%- endfor -%}
    ){{ ',' if not loop.last }}
    {% endfor %}
    as found ({{ found[0] | join(', ') }}))
{% else %}
({{ query }} limit 0)
{% endif %}
