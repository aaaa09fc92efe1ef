{#
  The rows that the new steps name, in a table without a key, each copy as the step that added it;
  and the new steps. The columns are those of event_parts.row_steps.

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
