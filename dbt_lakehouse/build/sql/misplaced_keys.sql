{#
  Keys with an event that belongs before their known state, and the keys that are to be folded
  again anyway.

  Arguments:
      fold: the Fold.
      states: the relation of the new events' states, or none to leave them out.
      deletes: SQL as of event_parts.remembered_deletes, or none.
      known, unsettled: relations of the known states, and of the keys that were looked up.
      horizon: the purge horizon, as text, or none.
      refolded: a relation of keys, or none.
      last_decides: whether an event before a known state makes no difference.
#}
{% if states or deletes %}
select distinct {{ fold.key_list }}
from (
    {% if states %}
    select {{ fold.key_list }}, _lh_first_position, _lh_first_time from {{ states }}
    {{ 'union all' if deletes }}
    {% endif %}
    {% if deletes %}
    select _digest, _position, _occurred_at from ({{ deletes }}) where _lh_is_new
    {% endif %}
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
{% endif %}
{% if refolded %}
{{ 'union' if states or deletes }}
select distinct {{ fold.key_list }} from {{ refolded }}
{% elif not (states or deletes) %}
select {{ fold.key_list }} from {{ unsettled }} where false
{% endif %}
