{#
  A query that has found nothing, to select from.

  Arguments:
      query: the query.
#}
({{ query }} limit 0)
