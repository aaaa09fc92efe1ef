{#
  The new events with the known states of their keys; for misplaced keys, their whole log.

  Arguments:
      fold: the Fold.
      new_events: SQL of the new events.
      deletes: SQL as of event_parts.remembered_deletes, or none.
      known, unsettled: relations of the known states, and of the keys that were looked up.
      misplaced: the relation of the misplaced keys, or none if there are none.
      log: the relation of all their events.
      is_small: whether all are few enough for one task.
#}
with fresh as (
    select * from ({{ new_events | indent }})
    {% if deletes %}
    union all
    select
        _digest,
        {{ fold.columns | each('null as {}') | lines_with_commas | indent(8) }}
        'delete' as _operation,
        _occurred_at,
        _occurred_at as _lh_guard_time,
        _position,
        cast(null as timestamp) as _expires_at,
        false as _lh_is_state,
        false as _lh_is_clock_ahead,
        cast(null as array<string>) as _unchanged_columns
    from ({{ deletes | indent }})
    left semi join {{ unsettled }} using (_digest)
    {% endif %}
)

{% if not misplaced %}
select {{ '/*+ coalesce(1) */ ' if is_small }}*
from (
    select * from fresh
    union all
    select * from {{ known }}
)
{% else %}
select * from {{ known }} left anti join {{ misplaced }} using ({{ fold.key_list }})
union all
select * from fresh left anti join {{ misplaced }} using ({{ fold.key_list }})
union all
select * from {{ log }}
-- Where the log doesn't reach back to what is known, that is the best there is.
union all
select * from {{ known }} as known
left semi join {{ misplaced }} using ({{ fold.key_list }})
left anti join {{ log }} as log
    on {{ fold.key | each('log.{} = known.{}') | join(' and ') }} and {{ parts.is_same_event(
        'log._position', 'known._position'
    ) }}
{% endif %}
