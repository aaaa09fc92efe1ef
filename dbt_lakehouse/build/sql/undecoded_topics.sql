{#
  The topics of which nothing but tombstones could be decoded, with their numbers of payloads.

  Arguments:
      events: other_events.
      quarantined: quarantined_payloads.
      decoded: the topics of which any event that changes a row was decoded.
      known: those that nobody misses.
#}
select topic, count(distinct partition, offset) as payloads
from {{ quarantined }}
where
    topic not in (
        select topic from {{ events }} where operation not in ('invalid', 'tombstone')
    )
    {% for topic in decoded %}
    and topic <> {{ topic | literal }}
    {% endfor %}
    {% for topic in known %}
    and topic <> {{ topic | literal }}
    {% endfor %}
group by topic
