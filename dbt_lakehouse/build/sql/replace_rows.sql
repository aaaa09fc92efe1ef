{% import 'parts.sql' as parts %}
{#
  Puts rows in the place of those that a table has of what is touched; equal ones stay as they are.

  Arguments:
      table, columns: the table, and its columns.
      own: the table as it is now, to select from.
      folded, touched: relations of the rows, and of what is touched.
      touched_by: the columns of what is touched.
      identity: the columns by which rows are the same.
#}
{% set rows %}
(
    select {{ columns | join(', ') }}, true as _is_there from {{ folded }}
    union all
    select {{ columns | join(', ') }}, false
    from {{ own }} as own
    left semi join {{ touched }} using ({{ touched_by | join(', ') }})
    left anti join {{ folded }} as folded
        on
            {% for column in identity %}
            folded.{{ column }} <=> own.{{ column }}{{ ' and' if not loop.last }}
            {% endfor %}
)
{%- endset %}
{{ parts.merge_rows(
    table, rows, identity, columns, '_is_there', parts.columns_differ(columns), 'true'
) }}
