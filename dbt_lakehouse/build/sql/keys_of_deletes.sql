{#
  The keys of a namespace's deletes without a set.

  Arguments:
      fold: the Fold.
      deletes: the deletes, to select from.
#}
select _digest
from {{ deletes }}
where _namespace = {{ fold.namespace | literal }}
