{#
  The keys of events from before a key was declared again: their record keys have other columns. A
  rebuild reads all events, so earlier events with the same record key supply the values that an
  event does not ship.

      A field of the key that had another name is the one of that name.
      A delete with only the former key is a delete of the key that its row had last.
      An update whose row has another key now, and that has no image before, has replaced the key
      that its row had last.
      If rows of several former keys have one key now (it has lost a column), those that were
      deleted by then have no key: their deletes must not hit the remaining row.
#}

{#
  Steps of change_log, from `decoded` to `typed`.

  Arguments:
      place: SQL of an event's place in the source's order; empty without one.
#}
{% macro steps(log, place) %}
{% set row = 'partition by topic, source_database, source_schema, source_table, record_key' %}
{% set values = log.key | each('`value_{}`') | join(', ') %}
{% set new_key = 'partition by change._lh_has_other_key, ' ~ values %}
before_each as (
    select
        *,
        {% for column in log.key %}
        if(
            change._lh_has_other_key,
            last_value(change.`{{ column }}`, true) over (
                {{ row }}
                order by {{ payload_parts.event_position('decoded', place) | indent(16) }}
                rows between unbounded preceding and 1 preceding
            ),
            null
        ) as `former_{{ column }}`,
        {% endfor %}
        change._lh_has_other_key
        and max_by(operation, {{ payload_parts.event_position('decoded', place)
            | indent(8) }}) over (
            {{ row }}
        ) = 'delete'
            as is_gone
    from decoded
),

completed as (
    select
        *,
        {% for column in log.key %}
        if(
            change._lh_has_other_key and after is null,
            coalesce(change.`{{ column }}`, `former_{{ column }}`),
            change.`{{ column }}`
        ) as `value_{{ column }}`{{ ',' if not loop.last }}
        {% endfor %}
    from before_each
),

placed as (
    select
        *,
        is_gone
        and min(record_key) over ({{ new_key }}) <> max(record_key) over ({{ new_key }})
            as is_apart
    from completed
),

keyed as (
    select
        * except ({{ values }}),
        {{ log.key | each('if(is_apart, null, `value_{}`) as `value_{}`') | lines | indent(8) }}
    from placed
),

typed as (
    select
        *,
        case
            when
                operation = 'update'
                and not is_apart
                and (
                    {% for spec in log.columns if spec.column in log.key %}
                    not {{ value_before(spec) | indent(20) }} <=> `value_{{ spec.column }}`
                    {{- ' or' if not loop.last }}
                    {% endfor %}
                )
                then named_struct(
                    {% for spec in log.columns if spec.column in log.key %}
                    {{ spec.column | literal }},
                    {{ value_before(spec) | indent(20) }}{{ ',' if not loop.last }}
                    {% endfor %}
                )
        end as previous_key
    from keyed
),
{%- endmacro %}

{#
  A key column's value before an update: from the image before, else from the earlier events, else
  from the image after.
#}
{% macro value_before(spec) %}
{% if spec.encoding %}
`value_{{ spec.column }}`
{%- else %}
coalesce(
    change._lh_former.before.`{{ spec.column }}`,
    `former_{{ spec.column }}`,
    `value_{{ spec.column }}`
)
{%- endif %}
{%- endmacro %}

{#
  The misfits after the rows got their keys: key values that were shipped but are not in the key,
  and columns with a placeholder, whose values are unknown for a row that has another key now.
#}
{% macro misfits(log) %}
{% set unavailable = "'__debezium_unavailable_value'" %}
filter(
    array(
        {% for spec in log.columns if spec.column in log.key %}
        {% set text = 'change._lh_former.texts[' ~ loop.index0 ~ ']' %}
        case
            when {{ text }} is null
                then try_element_at(
                    filter(change._misfits, misfit -> misfit.column = {{ spec.column | literal }}),
                    1
                )
            when `value_{{ spec.column }}` is null
                then named_struct('column', {{ spec.column | literal }}, 'text', {{ text }})
        end{{ ',' if not loop.last }}
        {% endfor %}
    ),
    misfit -> misfit is not null
)
|| filter(
    change._misfits,
    misfit -> misfit.column not in ({{ log.key | map('literal') | join(', ') }})
    and not (
        change._key_update.key_before is null
        and misfit.text = {{ unavailable }}
        and array_contains(change._lh_former.hidden, misfit.column)
    )
)
|| transform(
    if(
        change._key_update.key_before is null
        and (operation in ('snapshot', 'insert') or previous_key is not null),
        change._lh_former.hidden,
        cast(array() as array<string>)
    ),
    column -> named_struct('column', column, 'text', {{ unavailable }})
)
{%- endmacro %}
