{#
  Add versions to a history that come after all its versions of their keys: end the open ones, and
  insert the new ones.

  Arguments:
      table, columns: the history, and its columns.
      folded: the relation of the open versions as they are now, and of the new ones.
      identity: the columns by which versions are the same.
      ranges: the ranges of the keys (parts.is_in_key_ranges).
#}
{% set rows = '(select *, true as _lh_is_there from ' ~ folded ~ ')' %}
{{ parts.merge_rows(
    table, rows, identity, columns, '_lh_is_there', parts.columns_differ(columns),
    'target.is_current and ' ~ parts.is_in_key_ranges('target.' ~ identity[0], ranges)
) }}
