{#
  Keep tables fast to read, as `lakehouse maintain` does. Call it with
  `dbt run-operation maintain_tables`, for example once a day. It waits for commands that build;
  landings continue meanwhile.

  Arguments:
      tables: names of tables; an empty list takes all of bronze and of incremental models.
      dry_run: only report what is due.
#}
{% macro maintain_tables(tables=[], dry_run=false) %}
    {% do execute and adapter.maintain(tables, dry_run) %}
{% endmacro %}
