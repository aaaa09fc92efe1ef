{#
  The places of the rows of key updates that are new, or that a new row may affect.

  Arguments:
      updates: a relation of the rows, as of key_updates.
      news: the new rows of the log, to select from.
      key: its key, quoted.
      by_source: whether the log is ordered by its source: then what was changed earlier may be sent
          at any time.
#}
select _lh_place from {{ updates }}
{# Not by positions: those that a source says may have been given since. #}
left semi join (
    select {{ key_update_parts.place() }} as _lh_place from {{ news }}
) using (_lh_place)
union
select _lh_place from {{ updates }} as updates
left semi join {{ news }} as news
    on
        {{ key | each('news.{} = updates._key_update.key_before.{}') | join(' and ') }}
        {% if by_source %}
        -- A later event is one of the next row of that key.
        and coalesce(news._position.source <= updates._position.source, true)
        {% else %}
        -- A later event is one of the next row of that key; but clocks differ a little.
        and coalesce(
            news._position.log_time <= updates._position.log_time + interval 1 hour, true
        )
        {% endif %}
union
-- A truncate may have taken any old key's row away.
select _lh_place from {{ updates }}
where exists (
    select 1 from {{ news }} as news
    where {{ key[0] }} is null and _operation = 'truncate'
)
