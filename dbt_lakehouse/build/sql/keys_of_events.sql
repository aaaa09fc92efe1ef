{#
  The keys of a log's events.

  Arguments:
      fold: the Fold.
      changes: the rows of the log, to select from.
#}
select {{ fold.key_list }} from ({{ event_parts.log_events(fold, changes) | indent }})
