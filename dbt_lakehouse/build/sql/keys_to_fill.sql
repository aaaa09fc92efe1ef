{#
  The keys with an event whose value of a column to fill can't be in a table yet.

  Arguments:
      key: the columns.
      log: the log, to select from.
      to_fill: the columns to fill, quoted, with their previous types, none for a new one.
#}
select {{ key | join(', ') }}
from {{ log }} as changes
where (
    {% for name, old in to_fill.items() %}
    {% if old is none %}
    changes.{{ name }} is not null
    {%- else %}
    not changes.{{ name }} <=> try_cast(changes.{{ name }} as {{ old }})
    {%- endif %}
    {{ ' or' if not loop.last }}
    {% endfor %}
)
