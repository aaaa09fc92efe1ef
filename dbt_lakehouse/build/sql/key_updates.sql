{#
  The rows with values of an old key's row.

  Arguments:
      log: the log, to select from.
      key: its key, quoted.
#}
select {{ key_update_parts.place() }} as _lh_place, _position, _key_update, {{ key | join(', ') }}
from {{ log }}
-- By a column, whose statistics spare the files without any.
where _key_update.key_before.{{ key[0] }} is not null and size(_key_update.columns) > 0
