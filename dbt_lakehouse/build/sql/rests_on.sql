{#
  The rows of key updates that have values of another such row, with that row and the columns. It is
  the last row before the delete, so it is the same for all columns.

  Arguments:
      found: a relation as of values_before.
      columns: the log's value columns, quoted.
#}
select
    _lh_place,
    coalesce({{ columns | each('{}.rests_on') | join(', ') }}) as rests_on,
    array_remove(
        array(
            {% for column in columns %}
            if({{ column }}.rests_on is not null, {{ column.strip('`') | literal }}, '')
            {{- ',' if not loop.last }}
            {% endfor %}
        ),
        ''
    ) as columns
from {{ found }}
where {{ columns | each('{}.rests_on is not null') | join(' or ') }}
