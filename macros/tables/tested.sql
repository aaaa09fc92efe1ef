{#
  The rows of an append-only table that its tests look at: those that this command has added to it,
  or all of them where it has not, as in `dbt test`.

  Arguments:
      relation: the table.
#}
{% macro added_rows(relation) %}
    {% do return((adapter.added_rows(relation) if execute) or relation) %}
{% endmacro %}

{#
  A condition that holds for all rows with the positions of some others: what spares a look at the
  files without any. Literals, for Spark passes over files by nothing else.

  Arguments:
      rows: a relation with topic, partition and offset, of which few are expected.
      parent: the struct in which the rows that are looked for have theirs, with a point; none for
          columns of their own.
#}
{% macro is_near_positions(rows, parent='') %}
    {% set places = [] %}
    {% for (place,) in run_query(
        'select to_json(struct(topic, partition, min(offset) as first, max(offset) as last)) from '
        ~ rows ~ ' group by topic, partition'
    ) %}
        {% set place = fromjson(place) %}
        {% do places.append(
            '(' ~ parent ~ 'topic = ' ~ dbt.sql_text(place.topic)
            ~ ' and ' ~ parent ~ 'partition = ' ~ place.partition
            ~ ' and ' ~ parent ~ 'offset between ' ~ place.first ~ ' and ' ~ place.last ~ ')'
        ) %}
    {% endfor %}
    {% if places | length > 100 %}
        {% do return('true') %}
    {% endif %}
    {# In parentheses, `where (false)` would be a name for the table. #}
    {% do return(places | join(' or ') or 'false') %}
{% endmacro %}

{#
  The keys that this command may have changed in a gold table or history, as SQL of a relation; none
  for all of them.

  Arguments:
      model: the table.
      fold: its Fold.
#}
{% macro touched_keys(model, fold) %}
    {% set run = adapter.run_to_test(model) if execute %}
    {% if not run or adapter.may_have_new_rows(run, run.upstreams[0], [
        (fold.key[0].strip('`'), 'is null', none)
    ]) %}
        {% do return(none) %}
    {% endif %}
    {% set keys %}
        select {{ fold.key | join(', ') }}
        from ({{ dbt.log_events_sql(fold.without_columns(), run.rows(run.upstreams[0])) }})
        {%- for deletes in run.upstreams[1:] if fold.namespace %}
        union all
        {% if deletes.identifier == 'deleted_keys' -%}
        select _digest from ({{ dbt.remembered_deletes_sql(run, fold, deletes) }}) where _is_new
        {%- else -%}
        select _digest from {{ run.rows(deletes) }}
        where _namespace = {{ dbt.sql_text(fold.namespace) }}
        {%- endif %}
        {%- endfor %}
    {% endset %}
    {% do return('(' ~ keys ~ ')') %}
{% endmacro %}

{#
  A relation, or its rows of some keys.

  Arguments:
      relation: to select from.
      keys: as of touched_keys.
      key: the key columns.
#}
{% macro rows_of_keys(relation, keys, key) -%}
    {%- if keys -%}
    (select * from {{ relation }} left semi join {{ keys }} using ({{ key | join(', ') }}))
    {%- else -%}
    {{ relation }}
    {%- endif -%}
{%- endmacro %}
