{#
  The clause of the properties of a new table, empty without any.

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
