{#
  The keys with an event behind a truncate that comes late. A key may occur more than once.

  Arguments:
      fold: the Fold.
      log, gold, remembered: the log, the gold table and `deleted_keys`, to select from.
      scope: the table's in `deleted_keys`.
      truncates: the positions of the new truncates, as SQL; at least one.
#}
{% set position = truncates[0] if truncates | length == 1
    else 'least(' ~ truncates | join(', ') ~ ')' %}
-- It comes late, so what they are may rest on what it took away.
{% if fold.order_by_source_time %}
-- A later event may have lost to one that it takes away, so only the log has its position.
select {{ fold.key_list }}
from {{ log }}
where _position > {{ position }} and {{ fold.key[0] }} is not null
{% else %}
select {{ fold.key_list }}
from {{ gold }}
where _position > {{ position }}
{% endif %}
union
-- Only the log has the columns of an absent key.
select {{ fold.key_list }}
from (
    select {{ fold.key_list }}, {{ parts.record_key(fold.key) | indent(8) }} as _lh_record_key
    from {{ log }}
)
left semi join (
    select record_key as _lh_record_key
    from {{ remembered }} as remembered
    where
        scope = {{ scope | literal }}
        and {{ parts.position('remembered', fold.order_by) | indent(8) }} > {{ position }}
) using (_lh_record_key)
