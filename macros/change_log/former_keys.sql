{#
  What a key that was declared anew makes of the events before: those whose record keys are of other
  columns. Steps of change_log_sql, from `as_sent` to `typed`; a rebuild reads all events, so what
  an event does not say of its row is known from the ones before with the same record key.

      A field of the key that was called otherwise is the one of that name.
      A delete that says the former key only is of the key that its row had last.
      An update whose row has another key now, and that has no row before, has replaced the one that
      its row had last.
      Where rows of several former keys have one key now (it has lost a column), those that were
      deleted by then have no key: their deletes must not hit the row that has stayed.

  Arguments:
      log: the declaration.
#}
{% macro former_keys_sql(log) -%}
{%- set values = [] -%}
{%- for column in log.key -%}
    {%- do values.append('`value_' ~ column ~ '`') -%}
{%- endfor -%}
{%- set row = 'partition by topic, source_database, source_schema, source_table, record_key' -%}
{%- set new_key = 'partition by row_texts.has_other_key, ' ~ values | join(', ') -%}
before_each as (
    select
        *,
        {%- for column in log.key %}
        if(
            row_texts.has_other_key,
            last_value(`value_{{ column }}`, true) over (
                {{ row }}
                order by {{ event_position('as_sent') }}
                rows between unbounded preceding and 1 preceding
            ),
            null
        ) as `former_{{ column }}`,
        {%- endfor %}
        row_texts.has_other_key
        and max_by(operation, {{ event_position('as_sent') }}) over ({{ row }}) = 'delete'
            as is_gone
    from as_sent
),

completed as (
    select
        * except ({{ values | join(', ') }}),
        {%- for column in log.key %}
        if(
            row_texts.has_other_key and after is null,
            coalesce(`value_{{ column }}`, `former_{{ column }}`),
            `value_{{ column }}`
        ) as `value_{{ column }}`{{ ',' if not loop.last }}
        {%- endfor %}
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

typed as (
    select
        * except ({{ values | join(', ') }}),
        {%- for column in log.key %}
        if(is_apart, null, `value_{{ column }}`) as `value_{{ column }}`{{ ',' if not loop.last }}
        {%- endfor %}
    from placed
),
{%- endmacro %}
