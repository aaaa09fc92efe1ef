{#
  The number of rows of a gold table with a value in a column that each event of their key leaves
  unchanged.

  Arguments:
      table, log: the gold table and its log.
      key, columns: the columns of the key, and the columns to examine.
#}
select count(*)
from {{ table }} as own
inner join (
    select
        {{ key | join(', ') }},
        array(
            {% for column in columns %}
            bool_and({{ parts.is_unchanged(column) }}){{ ',' if not loop.last }}
            {% endfor %}
        ) as _lh_unsaid
    from {{ log }}
    where _operation in ({{ operations_with_row }})
    group by {{ key | join(', ') }}
) as said using ({{ key | join(', ') }})
where
    {% for column in columns %}
    (own.{{ column }} is not null and _lh_unsaid[{{ loop.index0 }}]){{ ' or' if not loop.last }}
    {% endfor %}
