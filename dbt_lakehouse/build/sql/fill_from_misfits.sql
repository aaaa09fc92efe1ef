{#
  A MERGE that moves misfits into their columns if they fit by now. A change inside a column is not
  a value of it.

  Arguments:
      table: the log.
      own: the same as it is now, to select from.
      columns: the columns, quoted.
      function: the function that returns the values of misfits that fit by now.
      leaves_columns: whether events may leave columns as they were.
#}
{% set changed = columns + ['_misfits'] %}
merge into {{ table }} as target
using (
    with held as (
        select
            *,
            {{ function }}(_misfits) as fitting
        from {{ own }}
        where size(_misfits) > 0
    ),

    told as (
        select
            *,
            array(
                {% for column in columns %}
                if(
                    fitting.{{ column }} is not null
                    {{- ' and not ' ~ parts.is_unchanged(column) if leaves_columns }},
                    {{ column.strip('`') | literal }},
                    ''
                ){{ ',' if not loop.last }}
                {% endfor %}
            ) as filled
        from held
    )

    select
        _position,
        {% for column in columns %}
        if(
            array_contains(filled, {{ column.strip('`') | literal }}),
            fitting.{{ column }},
            {{ column }}
        ) as {{ column }},
        {% endfor %}
        filter(_misfits, misfit -> not array_contains(filled, misfit.column)) as _misfits
    from told
) as source
on target._position = source._position and size(target._misfits) > 0
when matched and {{ parts.columns_differ(changed) }} then update set
    {{ changed | each('{} = source.{}') | lines | indent }}
