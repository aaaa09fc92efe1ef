{#
  Keys with an event that belongs before their known state.

  Arguments:
      fold: the Fold.
      first: SQL of the first new events of each key, as of first_events.
      known, unsettled: relations of the known states, and of the keys that were looked up.
      horizon: the purge horizon, as text, or none.
      last_decides: whether an event before a known state makes no difference.
#}
select distinct {{ fold.key_list }}
from (
    {{ first | indent }}
) as fresh ({{ fold.key_list }}, _lh_first_position, _lh_first_time)
{{ 'left' if horizon or fold.order_by else 'inner' }} join (
    select
        {{ fold.key_list }},
        _position as _lh_known_position,
        _lh_guard_time as _lh_known_time,
        _operation <> 'delete' as _lh_is_known_live
    from {{ known }}
) using ({{ fold.key_list }})
left semi join {{ unsettled }} using ({{ fold.key_list }})
where
    {{ 'false' if last_decides else '_lh_first_position <= _lh_known_position' }}
    {% if fold.order_by %}
    -- The log has its place by now (source_places.py).
    or _lh_first_position.source is null
    {% endif %}
    {{ 'or _lh_first_time < _lh_known_time' if fold.takes_late }}
    {% if fold.ends_lives %}
    -- Absent for its expiry, the row has columns that an event from before that leaves as they
    -- were.
    or not _lh_is_known_live
    {% endif %}
    {% if horizon %}
    {% if fold.order_by_source_time %}
    -- What is known may be of an event without a time, behind a later one that was forgotten.
    or _lh_first_time <= timestamp '{{ horizon }}'
    {% endif %}
    or (
        _lh_known_position is null
        and {{ parts.is_behind(horizon, '_lh_first_position', '_lh_first_time') | indent(8) }}
        {% if fold.order_by %}
        -- What is sent again has a new log time, and may have a new time of its own.
        or _lh_known_position is null
        {% endif %}
    )
    {% endif %}
