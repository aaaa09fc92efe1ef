{#
  A history (macros/history/history.sql): what the log's new events touch is folded anew from the
  whole log, and takes the place of what the table has of it. So events that come late need no care,
  and a run that is repeated changes nothing. The model's own SQL is what is run, for the touched
  keys.
#}
{% materialization history, adapter='lakehouse', supported_languages=['sql'] -%}
    {%- set run = adapter.run_of(this) -%}
    {{ run_hooks(pre_hooks) }}
    {%- do adapter.check_contract(
        model, run.fold, run.fold.key + run.fold.history_columns
        + ['valid_from', 'valid_to', 'is_current']
    ) -%}
    {%- do dbt.prepare_table() -%}
    {%- do dbt.refuse_earlier_moment(run) -%}
    {%- if not run.is_incremental -%}
        {%- do dbt.refuse_loss(run) -%}
    {%- endif -%}
    {%- do dbt.refold(run, run.fold) -%}
    {%- do adapter.drop_evaluated(dbt.view_of('')) -%}
    {%- do persist_docs(this, model) -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [this]}) }}
{%- endmaterialization %}

{#
  Brings a table that is a fold of a change log up to date by folding anew what is touched: a
  history, or the rows of a table without a key.

  Arguments:
      run: the NodeRun.
      fold: the Fold.
#}
{% macro refold(run, fold) %}
    {% set notes = {'lakehouse.as_of': dbt.as_of_text()} %}
    {% if not run.is_incremental %}
        {% do dbt.replace_table(sql, notes) %}
        {% do return(none) %}
    {% endif %}
    {% set may_expire = fold.namespace and adapter.may_have_rows(
        this, [('is_current', '=', true), ('_expires_at', '<=', dbt.as_of_text())]
    ) %}
    {% set resting = dbt.keys_with_values_of_others(run, fold) if not fold.keyless %}
    {% if not run.has_news and not may_expire and not resting %}
        {% do dbt.nothing_to_do() %}
        {% do return(none) %}
    {% endif %}
    {% set touched, folded = dbt.view_of('touched'), dbt.view_of('folded') %}
    {% set touched_keys = adapter.evaluate(
        touched,
        dbt._touched_rows(run, fold) if fold.keyless
        else dbt._touched_by_history(run, fold, resting)
    ) %}
    {# The columns of the model's SQL, which selects from what is touched. #}
    {% set rows = dbt.current_rows_sql(
        fold, dbt.pinned(run.upstreams[0], run.snapshot_of(run.upstreams[0])), touched
    ) if fold.keyless else sql %}
    {% if run.is_declared_anew %}
        {% do adapter.follow_schema(this, rows) %}
    {% endif %}
    {% if touched_keys == 0 %}
        {% do adapter.note(this, notes) %}
        {% do dbt.nothing_to_do('nothing is touched') %}
        {% do return(none) %}
    {% endif %}
    {% do adapter.evaluate(folded, rows) %}
    {% set merge = dbt._replace_sql(
        folded, touched, fold.key or ['_row'],
        ['_row', '_copy'] if fold.keyless else fold.key + ['valid_from']
    ) %}
    {{ write(merge) }}
    {% do dbt.record_result(adapter.write_table(this, merge, notes)) %}
{% endmacro %}

{# The keys whose versions a run has to make anew. #}
{% macro _touched_by_history(run, fold, resting) -%}
    {%- set key_list = fold.key | join(', ') -%}
    {%- set log, own = run.rows(run.upstreams[0]), adapter.pinned_own(this) -%}
select {{ key_list }} from ({{ dbt.log_events_sql(fold, log) }})
    {%- if resting %}
union
{{ resting }}
    {%- endif %}
    {%- if run.to_fill %}
union
{#- Pinned: beside a part of a table, Spark would take that part for the whole of it. #}
select {{ key_list }}
from {{ dbt.pinned(run.upstreams[0], run.snapshot_of(run.upstreams[0])) }} as changes
where {{ dbt.is_to_be_filled(run.to_fill, 'changes') }}
    {%- endif %}
    {%- if fold.namespace %}
union
select _digest from {{ run.rows(run.upstreams[1]) }}
left semi join {{ own }} using (_digest)
where _namespace = {{ dbt.sql_text(fold.namespace) }}
union
select _digest from {{ own }} where is_current and _expires_at <= {{ dbt.as_of() }}
    {%- elif adapter.may_have_new_rows(
        run, run.upstreams[0], [(fold.key[0].strip('`'), 'is null', none)]
    ) %}
union
{#- All: of one without a version now, a truncate may part events of one instant; by source time, it
    takes away events behind it too. #}
select {{ key_list }}
from ({{ dbt.log_events_sql(
    fold, dbt.pinned(run.upstreams[0], run.snapshot_of(run.upstreams[0]))
) }})
where exists (
    select 1 from {{ log }} as changes
    where {{ fold.key[0] }} is null and _operation = 'truncate'
)
    {%- endif %}
{%- endmacro %}

{# The row images whose copies a run has to count anew. #}
{% macro _touched_rows(run, fold) -%}
{%- set log = run.rows(run.upstreams[0]) -%}
select _row from ({{ dbt.row_steps_sql(fold, log) }})
union
select _row from {{ dbt.pinned(this) }} as own
where exists (
    select 1 from {{ log }} as changes
    where _operation = 'truncate'{{ ' and changes._source = own._source' if fold.several_sources }}
)
{%- endmacro %}

{#
  Puts rows in the place of those that the running model's table has of the touched keys; equal ones
  stay as they are.

  Arguments:
      folded, touched: relations of the rows, and of the keys.
      key: the columns of the keys.
      identity: the columns by which rows are the same.
#}
{% macro _replace_sql(folded, touched, key, identity) -%}
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
            from {{ adapter.pinned_own(this) }} as own
            left semi join {{ touched }} using ({{ key | join(', ') }})
            left anti join {{ folded }} as folded on {{ same }}
        )
    {%- endset -%}
    {{ dbt.merge_rows_sql(
        rows, identity, columns, '_is_there', dbt.columns_differ(columns), 'true'
    ) }}
{%- endmacro %}
