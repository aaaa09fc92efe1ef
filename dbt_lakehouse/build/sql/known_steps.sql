{#
  The rows of a table without a key that the news names, each copy as the step that added it, and
  the steps of the news; in the columns of event_parts.row_steps.

  Arguments:
      fold: the Fold.
      own: the table as it is now, to select from.
      news: the relation of the new steps.
#}
select * from {{ news }}
union all
select
    struct({{ fold.row_columns | join(', ') }}) as _lh_columns,
    1 as _lh_step,
    _row,
    {% if fold.beside %}
    struct({{ fold.beside | join(', ') }}) as _lh_beside,
    {% endif %}
    _position
from {{ own }}
left semi join {{ news }} using (_row)
