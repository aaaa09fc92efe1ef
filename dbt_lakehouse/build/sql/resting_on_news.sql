{% import 'key_update_parts.sql' as parts %}
{#
  The places of the rows of key updates that are new, or that a new row may affect.

  Arguments:
      updates: a relation of the rows, as of key_updates.
      news: the new rows of the log, to select from.
      key: its key, quoted.
#}
select _place from {{ updates }}
left semi join (select _position from {{ news }}) using (_position)
union
select _place from {{ updates }} as updates
left semi join {{ news }} as news
    on
        {{ parts.has_old_key(key, 'news', 'updates') }}
        -- A later event is one of the next row of that key; but clocks differ a little.
        and coalesce(
            news._position.log_time <= updates._position.log_time + interval 1 hour, true
        )
