{#
  All versions of a history, its open ones together in each file: later runs read those alone, and
  pass over the row groups of the others.

  Arguments:
      versions: the query of the versions.
      key: the key columns.
#}
select * from (
    {{ versions | indent }}
)
sort by is_current, {{ key | join(', ') }}
