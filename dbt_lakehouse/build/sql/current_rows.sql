{#
  The current state of a table without a key: a multiset, in which each row of the source
  is a row here.

  An insert adds a row; a delete removes one that equals its image before, if there is one at that
  point of the log; an update does both; a truncate empties the table. Where the source ships no
  images before the change (REPLICA IDENTITY FULL in PostgreSQL), only inserts and truncates
  can be followed.

  The table has `_row` (the digest that equal rows share), `_copy` (the copy's number) and
  `_position` (of the newest event that added or removed such a row). Values that the source sent
  beside rows do not distinguish them: all copies have those of the newest event that added such a
  row.

  Arguments:
      fold: the Fold (dbt_lakehouse/declared/fold_of_log.py).
      log: the change log, to select from.
      keys: a relation with values of `_row`, or none for all.
      steps: SQL of the steps to count, as of event_parts.row_steps; the log is read for truncates
          only.
#}
{% set step_order = 'struct(_position, _lh_step)' %}
with all_steps as (
    {{ steps | indent }}
),

steps as (
    select * from all_steps
    {% if keys %}
    left semi join {{ keys }} using (_row)
    {% endif %}
),

-- A delete of a row that is not there removes none: what the sum falls below zero at its lowest
-- never counted.
summed as (
    select
        *,
        sum(_lh_step) over (
            partition by _row
            order by _position, _lh_step
            rows between unbounded preceding and current row
        ) as _lh_sum
    from steps
    {% if fold.several_sources %}
    left join (
        select _source, max(_position) as _lh_truncated_at
        from {{ log }} as changes
        where _operation = 'truncate'
        group by _source
    ) as truncates on steps._lh_columns._source = truncates._source
    where coalesce(_position > _lh_truncated_at, true)
    {% else %}
    where coalesce(
        _position > (
            select max(_position) from {{ log }} as changes where _operation = 'truncate'
        ),
        true
    )
    {% endif %}
),

counted as (
    select
        _row,
        any_value(_lh_columns) as _lh_columns,
        {% if fold.beside %}
        max_by(_lh_beside, {{ step_order }}) filter (where _lh_step = 1) as _lh_beside,
        {% endif %}
        max_by(_lh_sum, {{ step_order }}) - least(0, min(_lh_sum)) as _lh_copies,
        max(_position) as _position
    from summed
    group by _row
),

final as (
    select
        {% for column in fold.columns %}
        {{ '_lh_beside' if column in fold.beside else '_lh_columns' }}.{{ column }},
        {% endfor %}
        _row,
        explode(sequence(1, cast(_lh_copies as int))) as _copy,
        _position
    from counted
    where _lh_copies > 0
)

select * from final
