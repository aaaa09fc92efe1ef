{#
  A MERGE that writes the values of other rows into the rows of key updates, and records the columns
  whose values are unknown.

  Arguments:
      table: the log.
      own: the same as it is now, to select from.
      key, columns: its key and its value columns, quoted.
      found: a relation as of values_before.
      sources: a relation of the sources of values that rest on other rows (`place`, `source`,
          `columns`).
#}
{% set changed = columns + ['_unchanged_columns', '_misfits'] %}
merge into {{ table }} as target
using (
    -- A row whose values are others' has one for each of them.
    with of_others as (
        select
            sources.place as _lh_place,
            {% for column in columns %}
            max_by(
                found.{{ column }},
                array_contains(sources.columns, {{ column.strip('`') | literal }})
            ) filter (
                where array_contains(sources.columns, {{ column.strip('`') | literal }})
            ) as {{ column }}{{ ',' if not loop.last }}
            {% endfor %}
        from {{ sources }} as sources
        inner join {{ found }} as found on sources.source = found._lh_place
        group by sources.place
    ),

    known as (
        select
            found._lh_place,
            {{ columns
                | each('if(found.{}.rests_on is null, found.{}, of_others.{}) as {}')
                | lines | indent(12) }}
        from {{ found }} as found
        left join of_others on found._lh_place = of_others._lh_place
    ),

    told as (
        select
            log.*,
            struct(known.*) as _lh_known,
            array_remove(
                array(
                    {% for column in columns %}
                    if(
                        array_contains(log._key_update.columns, {{ column.strip('`') | literal }})
                        and not coalesce(known.{{ column }}.is_known, false),
                        {{ column.strip('`') | literal }},
                        ''
                    ){{ ',' if not loop.last }}
                    {% endfor %}
                ),
                ''
            ) as _lh_unknown
        from (
            select *, {{ key_update_parts.place() }} as _lh_place from {{ own }}
            where _key_update.key_before.{{ key[0] }} is not null
        ) as log
        inner join known on log._lh_place = known._lh_place
    )

    select
        _position,
        {% for column in columns %}
        if(
            array_contains(_key_update.columns, {{ column.strip('`') | literal }}),
            _lh_known.{{ column }}.value,
            {{ column }}
        ) as {{ column }},
        {% endfor %}
        _lh_unknown as _unchanged_columns,
        filter(_misfits, misfit -> not array_contains(_key_update.columns, misfit.column))
        || transform(
            _lh_unknown,
            column -> named_struct('column', column, 'text', '__debezium_unavailable_value')
        )
        -- What did not fit in the old key's row is told, and filled later, in this one too.
        || filter(
            array(
                {% for column in columns %}
                named_struct(
                    'column', {{ column.strip('`') | literal }},
                    'text', _lh_known.{{ column }}.text
                ){{ ',' if not loop.last }}
                {% endfor %}
            ),
            misfit
            -> misfit.text is not null and array_contains(_key_update.columns, misfit.column)
        ) as _misfits
    from told
) as source
on
    target._key_update.key_before.{{ key[0] }} is not null
    and target._position = source._position
when matched and {{ parts.columns_differ(changed) }} then update set
    {{ changed | each('{} = source.{}') | lines | indent }}
