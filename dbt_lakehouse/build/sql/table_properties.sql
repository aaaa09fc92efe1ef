{#
  The properties clause of a new table.

  Arguments:
      properties: the values by their names; at least one.
#}
tblproperties (
    {% for name, value in properties.items() %}
    {{ name | literal }} = {{ value | literal }}{{ ',' if not loop.last }}
    {% endfor %}
)
