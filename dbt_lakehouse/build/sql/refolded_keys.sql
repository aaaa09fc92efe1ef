{#
  The keys that are folded from their whole log whatever their new events are. A key may occur more
  than once.

  Arguments:
      fold: the Fold.
      log, gold, remembered: the log, the gold table and `deleted_keys`, to select from.
      scope: the table's in `deleted_keys`.
      new_truncates: the positions of the new truncates, as SQL.
      truncates: in a log of several source tables, the relation of all truncates; else none.
      states: the relation of the new events' states, or none if they are not needed.
      resting: SQL of the keys whose rows have values of others, or none.
      to_fill: the columns to fill (parts.is_to_be_filled).
#}
{% set position = new_truncates[0] if new_truncates | length == 1
    else 'least(' ~ new_truncates | join(', ') ~ ')' %}
{% set union = namespace(word='') %}
{% if new_truncates %}
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
{% set union.word = 'union all' %}
{% endif %}
{% if truncates %}
{{ union.word }}
-- What a truncate took away may lie between an event before it and what is known now.
select {{ fold.key_list }}
from {{ gold }} as gold
left semi join {{ truncates }} as truncates
    on gold._source = truncates._source and gold._position < truncates._position
{% if states %}
union all
select {{ fold.key_list }}
from {{ states }}
where _lh_first_position < (select max(_position) from {{ truncates }})
{% endif %}
{% set union.word = 'union all' %}
{% endif %}
{% if resting %}
{{ union.word }}
{{ resting }}
{% set union.word = 'union all' %}
{% endif %}
{% if to_fill %}
{{ union.word }}
select {{ fold.key_list }}
from {{ log }} as changes
where {{ parts.is_to_be_filled(to_fill, 'changes') | indent }}
{% endif %}
