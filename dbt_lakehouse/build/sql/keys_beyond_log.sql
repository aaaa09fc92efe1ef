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
    select {{ key_list }}
    from {{ log }} as log
    left semi join {{ known }} as known
        on {{ key | each('log.{} = known.{}') | join(' and ') }} and {{ parts.is_same_event(
            'log._position', 'known._position'
        ) }}
) using ({{ key_list }})
