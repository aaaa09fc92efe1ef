{#
  The keys of a log of several source tables with a new event before a truncate.

  Arguments:
      key: the columns.
      states: the relation of the new events' states.
      truncates: the relation of all truncates.
#}
select {{ key | join(', ') }}
from {{ states }}
where _lh_first_position < (select max(_position) from {{ truncates }})
