{#
  What a rebuild of a history, or of a gold table without a key, would lose beside rows whose last
  event is gone: pairs of what it is and a query that counts it.

  Arguments:
      run: the NodeRun.
#}
{% macro losses_of_fold(run) %}
    {% set fold, losses, log = run.fold, [], run.upstreams[0] %}
    {% set held = adapter.get_columns_in_relation(this) | map(attribute='quoted') | list %}
    {% set columns = adapter.columns_kept(this, fold) %}
    {% if fold.keyless %}
        {% set columns = columns | reject('in', fold.beside) | list %}
        {% if columns %}
            {% do losses.append(('of its rows are', dbt._lost_copies_sql(fold, log, columns))) %}
        {% endif %}
        {% do return(losses) %}
    {% endif %}
    {% if fold.key | reject('in', held) | list %}
        {# Of another key: nothing that is held can be compared. #}
        {% do return(losses) %}
    {% endif %}
    {% if fold.may_leave and columns %}
        {% do losses.append(('of its rows have values', adapter.template(
            'lost_values', {'table': this, 'log': log, 'key': fold.key, 'columns': columns}
        ))) %}
    {% endif %}
    {% do return(losses) %}
{% endmacro %}

{#
  How many rows of a table without a key there are that the log does not give, up to the newest
  event that the table has a row of.
#}
{% macro _lost_copies_sql(fold, log, columns) -%}
    {%- set row = dbt.exact_json('struct(' ~ columns | join(', ') ~ ')') -%}
    {%- set read = '(select * from ' ~ log ~ ' where _position <= (select max(_position) from '
        ~ this ~ '))' -%}
select sum(greatest(held - coalesce(given, 0), 0))
from (select {{ row }} as _row, count(*) as held from {{ this }} group by 1)
left join (
    select {{ row }} as _row, count(*) as given
    from ({{ dbt.current_rows_sql(fold, read) }})
    group by 1
) using (_row)
{%- endmacro %}
