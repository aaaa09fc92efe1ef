{#
  The open versions of the keys with new events, and `_lh_known_time`: no state of a version's key
  begins later. It is null if the history alone can't tell.

  Arguments:
      fold: the Fold.
      own: the history as it is now, to select from.
      news: the relation of the new events.
      ranges: the ranges of their keys (parts.is_in_key_ranges).
#}
select
    *,
    {# A version without a source time may begin at the next event's time, as may earlier ones. One
       of several events has the time of the last, which need not be the latest. #}
    {{
        'if(_occurred_at is null, null, valid_from)' if fold.track_columns is none
        else 'cast(null as timestamp)'
    }} as _lh_known_time
from {{ own }}
left semi join {{ news }} using ({{ fold.key_list }})
where
    is_current
    and {{ parts.is_in_key_ranges(fold.key[0], ranges) }}
