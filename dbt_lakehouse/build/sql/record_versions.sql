{#
  Update a bitemporal history to the present knowledge: versions that no longer hold get their
  `recorded_to`, new ones their `recorded_from`. No other row is touched.

  Arguments:
      table, columns: the table, and its columns without `recorded_from` and `recorded_to`.
      own: the table as it is now, to select from.
      folded, touched: relations of the versions, and of the keys whose versions these all are.
      key: the columns of the key.
      as_of: the moment of the run.
#}
{% set now = "timestamp '" ~ as_of ~ "'" %}
{% set row = parts.exact_json('struct(' ~ columns | join(', ') ~ ')') %}
merge into {{ table }} as target
using (
    with held as (
        select {{ columns | join(', ') }}, recorded_from, {{ row | indent(8) }} as _row
        from {{ own }}
        left semi join {{ touched }} using ({{ key | join(', ') }})
        where recorded_to is null
    ),

    folded as (
        select {{ columns | join(', ') }}, {{ row | indent(8) }} as _row
        from {{ folded }}
    )

    select * except (_row), true as _lh_is_end
    from held
    left anti join folded using (_row)
    union all
    select {{ columns | join(', ') }}, {{ now }} as recorded_from, false
    from folded
    left anti join held using (_row)
) as source
on
    source._lh_is_end
    and {{ (key + ['valid_from', 'recorded_from'])
        | each('target.{} <=> source.{}') | join(' and ') }}
    and target.recorded_to is null
-- Two runs of one moment: it was believed for no time.
when matched and target.recorded_from >= {{ now }} then delete
when matched then update set
    recorded_to = {{ now }},
    is_current = false
when not matched and not source._lh_is_end then insert
    ({{ columns | join(', ') }}, recorded_from, recorded_to)
values (source.{{ columns | join(', source.') }}, {{ now }}, null)
