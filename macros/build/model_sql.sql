{#
  The SQL of a model (MODELS in dbt_lakehouse/build/kinds.py): what is compiled of it, be it to show
  it or for a unit test, is what runs.

  Arguments:
      kind: what a public macro declares, or the name of a model of ours.
      reads: the relations that it reads, by the names that its SQL has for them.
      declared: what its meta keeps of its declaration; empty of a model of ours. It is kept where
          gold tables, tests, and runs that find it changed look it up.
#}
{% macro model_sql(kind, reads, declared={}) -%}
    {%- if declared -%}
        {{- config(materialized=kind, meta=declared) -}}
    {%- endif -%}
    {{ adapter.model_sql(kind, context, reads, declared, dbt.goes_on()) }}
{%- endmacro %}

{#
  Whether the SQL of a model that is not run is that of a table that is there, and is only added to:
  a unit test overrides it. What runs finds out by itself.
#}
{% macro goes_on() %}
    {{ return(false) }}
{% endmacro %}

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
    {{ dbt.model_sql('new_rows', {'rows': relation, 'wanted': wanted}) }}
{%- endmacro %}
