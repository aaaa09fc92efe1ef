{#
  The rows that were committed to an append-only table since the running model last read it, to
  select from, in a model with `materialized="append_only"`:

      select ... from {{ new_rows(ref('other_events')) }}

  The first run and a full refresh read the whole table. The upper end is pinned to the snapshot
  that is current now, so rows that come while the model runs belong to the next run: none is lost,
  none is read twice. What was read is committed with the model's rows
  (dbt_lakehouse/runs/marks.py).

  Arguments:
      relation: an Iceberg table that only ever gets new rows; the model's only one.
      wanted: of other_events, what the model reads of it (`invalid`, `set_less_deletes`): nothing
          is read if no new event is that. None for all.
#}
{% macro new_rows(relation, wanted=none) -%}
    {%- if dbt.is_building() -%}
        {{ dbt.begin_run([relation], wanted=wanted).rows(relation.render()) }}
    {%- else -%}
        {{ relation }}
    {%- endif -%}
{%- endmacro %}

{#
  Finds out what is new to the running model's table, or why it has to be made anew: a NodeRun
  (dbt_lakehouse/runs/model_run.py). Called once, while the model is compiled.

  Arguments:
      upstreams: the relations that it reads as they grow.
      declaration: what its rows depend on beside them, a log's declaration or a Fold; none for its
          SQL alone.
      merges: whether reading an upstream again from the start does no harm.
      refolds: whether rows are made anew from all that the upstreams have of their keys.
      wanted: as in new_rows, or the source tables whose events are read.
      follows: whether the upstreams behind the first are read as far as that has read them.
#}
{% macro begin_run(
    upstreams, declaration=none, merges=false, refolds=false, wanted=none, follows=false
) %}
    {% do return(adapter.begin_run(
        this, upstreams, declaration, should_full_refresh(), merges, refolds, wanted, follows
    )) %}
{% endmacro %}

{# Whether a model is being run, not only compiled. #}
{% macro is_building() %}
    {% do return(
        execute and flags.WHICH in ['run', 'build', 'retry'] and model.resource_type == 'model'
    ) %}
{% endmacro %}

{# Whether the running model's table is there, and is only to be added to. #}
{% macro goes_on() %}
    {% do return(dbt.is_building() and adapter.run_of(this).is_incremental) %}
{% endmacro %}

{#
  What this command has read of a table for another one, or all that the other one has ever read
  where the command has not built it, to select from: for tests, beside which others may add rows.

  Arguments:
      upstream: the table that was read.
      reader: the table that notes what it has read.
#}
{% macro as_read(upstream, reader) %}
    {% do return(adapter.as_read(upstream, reader) if execute else upstream) %}
{% endmacro %}

{#
  A table as it is now, to select from. A model writes to tables that it reads, as others do at the
  same time, and an evaluated view of which a part is lost (with an executor) is evaluated again:
  only fixed snapshots stay what they were.
#}
{% macro pinned(relation, snapshot=none) %}
    {% set at = snapshot or adapter.look_at_table(relation).snapshot %}
    {# Not a subquery of the one with rows: that would hide the rows' sequence numbers. #}
    {% do return(
        '(select *, cast(null as bigint) as _last_updated_sequence_number'
        ~ ' from ' ~ relation ~ ' where false)'
        if at == 'none' else relation ~ ' version as of ' ~ at
    ) %}
{% endmacro %}
