{#
  The keys of a log that deletes without a set name: all keys of the log, since a key without a
  version gets one if, behind the delete, an event without a time is no longer older than one that
  took it away.

  Arguments:
      fold: the Fold.
      deletes: the deletes, to select from.
      log: all of the log, to select from.
#}
select _digest
from {{ deletes }}
left semi join {{ log }} using (_digest)
where _namespace = {{ fold.namespace | literal }}
