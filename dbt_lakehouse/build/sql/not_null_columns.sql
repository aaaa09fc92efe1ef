{#
  The rows in which any of some columns is null.

  Arguments:
      rows: the rows to look at.
      columns: the columns, quoted.
#}
select {{ columns | join(', ') }}
from {{ rows }}
where
    {% for column in columns %}
    {{ column }} is null{{ ' or' if not loop.last }}
    {% endfor %}
