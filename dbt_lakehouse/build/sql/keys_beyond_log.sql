{#
  How many misplaced keys have a known state that the log does not reach back to.

  Arguments:
      key: the columns.
      misplaced, known, log: as in events_to_fold.sql.
#}
{% set key_list = key | join(', ') %}
select count(*)
from {{ misplaced }}
left semi join {{ known }} using ({{ key_list }})
left anti join (
    select {{ key_list }}, _position
    from {{ log }}
    left semi join {{ known }} using ({{ key_list }}, _position)
) using ({{ key_list }})
