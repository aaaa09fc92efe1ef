{#
  Merge folded states into a gold table: delete absent rows, update changed ones, insert new live
  ones; all other rows stay untouched.

  Arguments:
      table: the gold table.
      fold: the Fold.
      states: the relation of the states.
      ranges: the ranges of their keys (parts.is_in_key_ranges).
      leaves: whether any event may leave columns unchanged; a known state is then folded with its
          values.
      truncated: whether the log has a truncate; its time then counts for the rows behind it.
      out_of_order: whether rows that stay as they are have an event before their own, which may
          have happened later.
#}
{# Only the key of the table's columns, if possible: Spark shuffles all rows that are near, and
   reads a struct value by value. #}
{% set is_changed %}
not source._lh_is_state
{{ 'or not target._max_occurred_at <=> source._max_occurred_at' if leaves and truncated }}
{%- endset %}
{{ parts.merge_rows(
    table, states, fold.key, fold.gold_columns, '_lh_live', is_changed,
    parts.is_in_key_ranges('target.' ~ fold.key[0], ranges), out_of_order
) }}
