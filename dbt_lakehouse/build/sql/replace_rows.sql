{#
  Replace a table's rows of the touched keys; equal ones stay untouched.

  Arguments:
      table, columns: the table, and its columns.
      own: the table as it is now, to select from.
      folded, touched: relations of the new rows, and of the touched keys.
      touched_by: the columns of the touched keys.
      identity: the columns by which rows are the same.
#}
{% set rows %}
(
    select {{ columns | join(', ') }}, true as _lh_is_there from {{ folded }}
    union all
    select {{ columns | join(', ') }}, false
    from {{ own }} as own
    left semi join {{ touched }} using ({{ touched_by | join(', ') }})
    left anti join {{ folded }} as folded
        on {{ identity | each('folded.{} <=> own.{}') | join(' and ') }}
)
{%- endset %}
{{ parts.merge_rows(
    table, rows, identity, columns, '_lh_is_there', parts.columns_differ(columns), 'true'
) }}
