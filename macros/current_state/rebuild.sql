{#
  Builds a gold table from its whole change log: the rebuild of build_current_state.

  Arguments, besides those of build_current_state:
      log: the change log as it is to be read.
      deletes: the table of deletes without a set, or none.
#}
{% macro _rebuild_current_state(fold, log, deleted_keys, deletes, staged) %}
    {% set truncation = _newest_truncate(fold, log, none) %}
    {# To find out whose they are, Spark sends all keys of the log to where the deletes are. #}
    {% if deletes and not adapter.may_have_rows(deletes, [('_namespace', '=', fold.namespace)]) %}
        {% set deletes = none %}
    {% endif %}
    {% do _remember_truncate(deleted_keys, truncation, rebuild=true) %}
    {# States of this table that are remembered may have to go back, which takes all keys. #}
    {% set ended = none %}
    {% if not adapter.may_have_rows(
        deleted_keys, [('scope', '=', this.schema ~ '.' ~ this.identifier)]
    ) %}
        {% set ended = staged.identifier ~ '__ended' %}
    {% endif %}
    {% if not ended or evaluate(ended, _ended_keys(fold, log, deletes)) > 0 %}
        {# Without their columns: to fold them takes a fraction of what it takes with them. #}
        {% set keys_only = dict(fold, columns=[]) %}
        {% set states_of_keys %}
            (
                with events as ({{ _log_events(keys_only, log, deletes, keys=ended) }}),
                {{ _fold_ctes(keys_only, truncation) }}
                select * from states
            )
        {% endset %}
        {% do _remember_absent_keys(fold, deleted_keys, states_of_keys, refolded=true) %}
        {% if not ended %}
            {% do _forget_unknown_keys(fold, deleted_keys, _log_events(keys_only, log, deletes)) %}
        {% endif %}
    {% endif %}
    {% do forget_evaluated(staged.identifier) %}
    {# In the order of keys, so that a run can pass over the files of those
       that it does not touch. #}
    {% set key_list = fold.key | join(', ') %}
    {# By the number of keys: by the size of the log, as Spark does it, many changes of each make
       many small files. #}
    {% set ranges = adapter.ranges_to_write(log, fold.key) %}
    {% set in_order %}
        with events as (
            -- The fold takes the ranges as they are, so all is shuffled once, where `order by`
            -- would shuffle again.
            select /*+ repartition_by_range({{ ranges }}, {{ key_list }}) */ *
            from ({{ _log_events(fold, log, deletes) }})
        ),
        {{ _fold_ctes(fold, truncation, fills=_leaves_columns(fold, log)) }}
        select {{ _gold_columns(fold) | join(', ') }}
        from states
        where _live
        sort by {{ key_list }}
    {% endset %}
    {% do _forget_newest_known() %}
    {% call statement('main') %}
        {{ create_table_as(false, this, in_order) }}
    {% endcall %}
    {% do _note_newest_known(none, none, deleted_keys) %}
    {% do save_watermarks({'lakehouse.as_of': as_of_text()}) %}
{% endmacro %}

{# The keys of a log with an event after which there is no row: no others can end absent. #}
{% macro _ended_keys(fold, log, deletes) -%}
    {%- set key_list = fold.key | join(', ') -%}
select {{ key_list }} from {{ log }}
where
    (_operation = 'delete'{{ ' or _expires_at <= ' ~ as_of() if fold.namespace }})
    {%- for column in fold.key %}
    and {{ column }} is not null
    {%- endfor %}
    {%- if not fold.namespace %}
union
select
    {% for column in fold.key %}
    _previous_key.{{ column }}{{ ', ' if not loop.last }}
    {% endfor %}
from {{ log }}
where
    {% for column in fold.key %}
    _previous_key.{{ column }} is not null{{ ' and ' if not loop.last }}
    {% endfor %}
    {%- endif %}
    {%- if deletes %}
union
select _digest from {{ log }}
left semi join (
    select _digest from {{ deletes }}
    where _namespace = {{ sql_text(fold.namespace) }}
) using (_digest)
    {%- endif %}
{%- endmacro %}
