{#
  The keys of rows of a log that its source orders which have got a place, or another one, since a
  model has read the log (source_places.py); all keys if it is a truncate that has got one.

  Arguments:
      log: the log, to select from.
      key: the columns.
      sequence: the sequence number up to which the model has read the log.
      truncates: SQL of moved_truncates.sql.
#}
{% for relation in ('', '_previous_key.') %}
select
    {%- for column in key %}
    {{ relation ~ column }}{{ ',' if not loop.last }}
    {%- endfor %}

from {{ log }}
where
    _position.source like '% !'
    and _last_updated_sequence_number > {{ sequence }}
    and {{ relation ~ key[0] }} is not null
union all
{% endfor %}
select {{ key | join(', ') }}
from {{ log }}
where
    {{ key[0] }} is not null
    and exists (
        {{ truncates | indent(8) }}
    )
