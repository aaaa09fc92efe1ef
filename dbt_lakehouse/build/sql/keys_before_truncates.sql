{#
  The keys of a log of several source tables whose rows lie before a truncate of their table.

  Arguments:
      key: the columns.
      gold: the gold table, to select from.
      truncates: the relation of all truncates.
#}
-- What a truncate took away may lie between an event before it and what is known now.
select {{ key | join(', ') }}
from {{ gold }} as gold
left semi join {{ truncates }} as truncates
    on gold._source = truncates._source and gold._position < truncates._position
