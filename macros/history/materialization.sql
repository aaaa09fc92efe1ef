{#
  Brings a table that is a fold of a change log up to date: the `refold` strategy of the incremental
  materialization, for history and current_rows models. What the log's new events touch is folded
  anew from the whole log, and takes the place of what the table has of it. So events that come late
  need no care, and a run that is repeated changes nothing.

  Arguments:
      staged: the name for a temporary view, whose name begins those of the other ones.
#}
{% macro build_by_refolding(staged) %}
    {% set fold, rows = config.get('meta').get('history'), config.get('meta').get('rows') %}
    {% set changes = ref(model.refs[0].name) %}
    {% set deletes = ref('set_less_deletes') if fold and fold.namespace %}
    {% set name = staged.identifier ~ '__' %}
    {% do _check_as_of(true) %}
    {% if not has_news() and not has_new_declaration() and not (deletes and adapter.may_have_rows(
        this, [('is_current', '=', true), ('_expires_at', '<=', as_of_text())]
    )) %}
        {% call noop_statement('main', 'nothing new to read') %}
            -- nothing new to read
        {% endcall %}
        {% do return(none) %}
    {% endif %}
    {% set to_fill = follow_schema_of(staged, sql ~ ' limit 0')
        if has_news() or has_new_declaration() else {} %}
    {% set own = pinned_self(to_fill) %}
    {% set touched_keys = evaluate(
        name ~ 'touched',
        _touched_by_history(fold, changes, deletes, own, to_fill) if fold
        else _touched_rows(rows, new_rows(changes), own)
    ) %}
    {% if touched_keys == 0 %}
        {% call noop_statement('main', 'nothing is touched') %}
            -- nothing is touched
        {% endcall %}
    {% else %}
        {% set log = _as_noted(changes) %}
        {% do evaluate(
            name ~ 'folded',
            history_sql(fold, log, _as_noted(deletes) if deletes, name ~ 'touched') if fold
            else current_rows_sql(rows, log, name ~ 'touched')
        ) %}
        {% call statement('main') %}
            {{ _replace_sql(
                name ~ 'folded', own, name ~ 'touched', fold.key if fold else ['_row']
            ) }}
        {% endcall %}
    {% endif %}
    {% if has_news() or touched_keys > 0 or to_fill %}
        {% do save_watermarks({'lakehouse.as_of': as_of_text()}) %}
    {% endif %}
    {% do forget_evaluated(name) %}
{% endmacro %}

{# The keys whose versions a run has to make anew. #}
{% macro _touched_by_history(fold, changes, deletes, own, to_fill) -%}
    {%- set key_list = fold.key | join(', ') -%}
    {%- set log = new_rows(changes) -%}
select {{ key_list }} from ({{ _log_events(fold, log, none) }})
    {%- if to_fill %}
union
{{ keys_to_fill(fold, _as_noted(changes), to_fill) }}
    {%- endif %}
    {%- if fold.namespace %}
union
select _digest from {{ new_rows(deletes) }}
left semi join {{ own }} using (_digest)
where _namespace = {{ sql_text(fold.namespace) }}
union
select _digest from {{ own }} where is_current and _expires_at <= {{ as_of() }}
    {%- else %}
union
select {{ key_list }} from {{ own }}
where exists (
    select 1 from {{ log }} as changes
    where {{ fold.key[0] }} is null and _operation = 'truncate'
)
    {%- endif %}
{%- endmacro %}

{# The row images whose copies a run has to count anew. #}
{% macro _touched_rows(rows, log, own) -%}
select _row from ({{ _row_steps(rows, log) }})
union
select _row from {{ own }}
where exists (select 1 from {{ log }} as changes where _operation = 'truncate')
{%- endmacro %}

{#
  Puts rows in the place of those that the running model's table has of the touched keys; equal ones
  stay as they are.
#}
{% macro _replace_sql(folded, own, touched, key) -%}
    {%- set identity = quoted(config.get('unique_key')) -%}
    {%- set columns = adapter.get_columns_in_relation(this) | map(attribute='quoted') | list -%}
    {%- set same -%}
        {%- for column in identity %}
        {{ 'folded.' ~ column ~ ' <=> own.' ~ column }}{{ ' and ' if not loop.last }}
        {% endfor -%}
    {%- endset -%}
    {%- set rows -%}
        (
            select {{ columns | join(', ') }}, true as _is_there from {{ folded }}
            union all
            select {{ columns | join(', ') }}, false
            from {{ own }} as own
            left semi join {{ touched }} using ({{ key | join(', ') }})
            left anti join {{ folded }} as folded on {{ same }}
        )
    {%- endset -%}
    {{ merge_rows_sql(rows, identity, columns, '_is_there', columns_differ(columns), 'true') }}
{%- endmacro %}
