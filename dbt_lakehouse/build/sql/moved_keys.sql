{#
  The keys of the rows whose place in the source's order was set or changed since a model read the
  log (source_places.py); all keys if a truncate's place was.

  Arguments:
      log: the log, to select from.
      key: the columns.
      sequence: the sequence number up to which the model has read the log.
      truncates: SQL of moved_truncates.sql.
#}
{% for relation in ('', '_previous_key.') %}
select {{ key | each(relation ~ '{}') | join(', ') }}
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
