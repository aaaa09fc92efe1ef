{#
  Merge states into a gold table, as of merge_states, after keys were folded from their whole log:
  columns can then change though the last event is the same.

  Arguments:
      table, fold, states, ranges, leaves, out_of_order: as of merge_states.
#}
{% set is_changed %}
{{ 'not source._lh_is_state and ' if not leaves }}(
        target._position <> source._position
        or not target._max_occurred_at <=> source._max_occurred_at
        {% if fold.columns %}
        or {{ parts.columns_differ(fold.columns) | indent(8) }}
        {% endif %}
    )
{%- endset %}
{{ parts.merge_rows(
    table, states, fold.key, fold.gold_columns, '_lh_live', is_changed,
    parts.is_in_key_ranges('target.' ~ fold.key[0], ranges), out_of_order
) }}
