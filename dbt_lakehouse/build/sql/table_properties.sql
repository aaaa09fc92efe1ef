{#
  The properties clause of a new table, empty without properties.

  Arguments:
      properties: the values by their names.
#}
{% if properties %}
tblproperties (
    {% for name, value in properties.items() %}
    {{ name | literal }} = {{ value | literal }}{{ ',' if not loop.last }}
    {% endfor %}
)
{% endif %}
