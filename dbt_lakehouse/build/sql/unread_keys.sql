{#
  The number of rows of a gold table that end because full snapshots did not read them: the rows are
  older than a snapshot, and no new event names their keys.

  Arguments:
      table: the table.
      fold: the Fold.
      truncates: the truncates of the snapshots, fold.Truncate.
      events: the new events, as of event_parts.log_events.
#}
select count(*) as keys
from {{ table }} as held
left anti join {{ events }} as events using ({{ fold.key_list }})
where
    {% for each in truncates %}
    (
        _position < {{ each.position }}
        {% if fold.several_sources %}
        and _source <=> from_json(
            {{ each.source | literal }}, 'database string, schema string, table string'
        )
        {% endif %}
    ){{ ' or' if not loop.last }}
    {% endfor %}
