{#
  The events of some payloads, to select from.

  Arguments:
      events: events, to select from.
      payloads: the payloads.
#}
(
    select * from {{ events | indent }}
    left semi join {{ payloads }} using (topic, partition, offset)
)
