{#
  The keys of new deletes without a set, as of first_events.

  Arguments:
      deletes: SQL as of event_parts.remembered_deletes.
#}
select _digest, _position, _occurred_at from ({{ deletes }}) where _lh_is_new
