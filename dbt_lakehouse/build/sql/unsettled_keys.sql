{#
  The distinct keys whose known states are looked up.

  Arguments:
      key: the columns.
      states: the relation of the new events' states, or none to leave out their keys.
      is_late: SQL for the states that may be late, or none for all.
      hit_by_others: SQL of keys, or none.
      refolded: a relation of keys, or none.
#}
select {{ 'distinct ' if hit_by_others or refolded }}*
from (
    {% if states %}
    select {{ key | join(', ') }} from {{ states }}
    {% if is_late %}
    where {{ is_late }}
    {% endif %}
    {{ 'union all' if hit_by_others or refolded }}
    {% endif %}
    {% if hit_by_others %}
    {{ hit_by_others }}
    {{ 'union all' if refolded }}
    {% endif %}
    {% if refolded %}
    select {{ key | join(', ') }} from {{ refolded }}
    {% endif %}
)
