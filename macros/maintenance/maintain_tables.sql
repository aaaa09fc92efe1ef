{#
  Keeps tables quick to read: what `lakehouse maintain` does. Call it by
  `dbt run-operation maintain_tables`, as often as once a day. It waits for commands that build;
  landings go on meanwhile.

  Arguments:
      tables: names of tables; an empty list takes all of bronze and of incremental models.
      dry_run: only say what there is to do.
#}
{% macro maintain_tables(tables=[], dry_run=false) %}
    {% if execute %}
        {% do adapter.maintain(tables, dry_run) %}
    {% endif %}
{% endmacro %}
