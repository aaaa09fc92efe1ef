{#
  The open versions of the keys with new events, and `_lh_known_time`: no state of a version's key
  begins later. It is null if the history alone can't tell.

  In a namespace also those that expire now, with `_lh_is_unsure`: whether an expiry makes more of
  such a version than an end.

  Arguments:
      fold: the Fold.
      own: the history as it is now, to select from.
      news: the relation of the new events.
      ranges: the ranges of their keys (parts.is_in_key_ranges).
      as_of: the moment at which rows expire, as text; none if no version does.
#}
{% set columns %}
*,
{# A version without a source time may begin at the next event's time, as may earlier ones. Of
   several events, the last need not have the latest time. #}
{{
    'if(_occurred_at is null, null, valid_from)' if fold.track_columns is none
    else 'cast(null as timestamp)'
}} as _lh_known_time
{%- if fold.namespace %},
{# A version that expires before it begins was never valid. #}
{{
    'coalesce(_expires_at <= valid_from, false)' if fold.track_columns is none
    else "coalesce(_expires_at <= timestamp '" ~ as_of ~ "', false)" if as_of
    else 'false'
}} as _lh_is_unsure
{%- endif %}
{% endset %}
select
    {{ columns | trim | indent }}
from {{ own }}
left semi join {{ news }} using ({{ fold.key_list }})
where
    is_current
    and {{ parts.is_in_key_ranges(fold.key[0], ranges) }}
{% if as_of %}
union all
select
    {{ columns | trim | indent }}
from {{ own }}
left anti join {{ news }} using ({{ fold.key_list }})
where is_current and _expires_at <= timestamp '{{ as_of }}'
{% endif %}
