{#
  The topics in which only tombstones could be decoded, with their numbers of payloads.

  Arguments:
      events: other_events.
      quarantined: quarantined_payloads.
      decoded: the topics with a decoded event that changes a row.
      known: the topics to ignore.
#}
select topic, count(distinct partition, offset) as payloads
from {{ quarantined }}
where
    topic not in (
        select topic from {{ events }} where operation not in ('invalid', 'tombstone')
    )
    {{ (decoded + known) | map('literal') | each('and topic <> {}') | join('\n    ') }}
group by topic
