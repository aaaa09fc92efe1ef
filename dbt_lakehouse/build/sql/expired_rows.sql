{#
  The keys whose rows have expired, of a history or of a gold table that keeps deleted rows.

  Arguments:
      own: the table as it is now, to select from.
      is_current: SQL over that table, for the rows that can expire.
      as_of: the moment at which rows expire, as text.
#}
select _digest from {{ own }} where {{ is_current }} and _expires_at <= timestamp '{{ as_of }}'
