{#
  The topics of tombstones.

  Arguments:
      events: the rows of other_events to examine.
#}
select distinct topic from {{ events }} where operation = 'tombstone' and record_key is not null
