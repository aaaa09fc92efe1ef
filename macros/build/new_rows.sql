{#
  The rows that were committed to an append-only table since the running model last read it, to
  select from, in a model with `materialized="append_only"`:

      select ... from {{ new_rows(ref('other_events')) }}

  The first run and a full refresh read the whole table. The upper end is pinned to the snapshot
  that is current now, so rows that arrive while the model runs belong to the next run: no row is
  lost or read twice. The watermark is committed with the model's rows
  (dbt_lakehouse/runs/marks.py).

  Arguments:
      relation: an append-only Iceberg table; the model's only one.
      wanted: for other_events, the part of it that the model reads (`invalid`, `set_less_deletes`);
          nothing is read without new events of that part. None for all.
#}
{% macro new_rows(relation, wanted=none) -%}
    {{ adapter.model_sql('new_rows', context, {'rows': relation, 'wanted': wanted}) }}
{%- endmacro %}
