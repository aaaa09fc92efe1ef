{#
  The keys of which it is looked up what is known, each once.

  Arguments:
      key: the columns.
      states: the relation of the new events' states, or none for none of their keys.
      is_late: SQL for those of them that may be late, or none for all.
      hit_by_others: SQL of keys, or none.
      refolded: a relation of keys, or none.
#}
select distinct *
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
