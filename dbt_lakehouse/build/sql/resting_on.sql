{#
  The places of the rows to examine, and of the rows that rest on them.

  Arguments:
      updates: a relation of the rows, as of key_updates.
      resting: a relation of the places found so far.
      key: the log's key, quoted.
#}
select _lh_place from {{ resting }}
union
select _lh_place from {{ updates }} as updates
left semi join (
    select * from {{ updates }} left semi join {{ resting }} using (_lh_place)
) as others
    on {{ key | each('others.{} = updates._key_update.key_before.{}') | join(' and ') }}
