{#
  Keeps tables quick to read: `dbt run-operation maintain_tables`, as often as once a day. For each
  table of bronze and of an incremental model

      1. data files with deleted rows are rewritten without them, and small files into larger ones;
      2. manifests are merged, so that planning a read opens few of them;
      3. snapshots older than `vars.snapshot_retention_days` go, with the files that only they name;
      4. files that no snapshot names go when they are older than a day: what a run or a landing has
         left that was killed, or whose disk was full. One that is at work has younger files.

  Rows stay what they are, with the numbers of the commits that wrote them: readers that have not
  read all, or whose last snapshot is gone, go on by those (dbt_lakehouse/dbt/marks.py). It waits
  for commands that build; landings go on meanwhile. Each step can be repeated.
#}
{% macro maintain_tables() %}
    {% if not execute %}
        {% do return(none) %}
    {% endif %}
    {% set oldest = _days_ago(var('snapshot_retention_days', 7)) %}
    {% set relations = [] %}
    {# Each landing replaces what topic_partitions says. #}
    {% for node in graph.sources.values() if node.source_name == 'bronze' %}
        {% do relations.append(adapter.get_relation(node.database, node.schema, node.identifier)) %}
    {% endfor %}
    {% for node in graph.nodes.values()
        if node.resource_type == 'model' and node.config.materialized in lake_materializations() %}
        {% do relations.append(adapter.get_relation(node.database, node.schema, node.alias)) %}
    {% endfor %}
    {% for relation in relations if relation is not none %}
        {% do _maintain_table(relation, oldest) %}
    {% endfor %}
{% endmacro %}

{# The moment so many days before the run began, as SQL. #}
{% macro _days_ago(days) %}
    {% set moment = run_started_at - modules.datetime.timedelta(days=days) %}
    {% do return("timestamp '" ~ moment.strftime('%Y-%m-%d %H:%M:%S.%f') ~ "'") %}
{% endmacro %}

{#
  Arguments:
      relation: the table.
      oldest: snapshots before this moment go, SQL.
#}
{% macro _maintain_table(relation, oldest) %}
    {% if adapter.look_at_table(relation).snapshot == 'none' %}
        {% do return(none) %}
    {% endif %}
    {# One deleted row makes a file worth it: reads of it no longer open a second one. #}
    {% set rewritten = run_query(
        "call lake.system.rewrite_data_files(table => '" ~ relation ~ "', strategy => 'binpack',"
        ~ " options => map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true'))"
    )[0] %}
    {% do run_query("call lake.system.rewrite_manifests(table => '" ~ relation ~ "')") %}
    {# What earlier commits say of the table, and what it keeps that speaks of them, would go. #}
    {% do adapter.carry_on(relation) %}
    {# What the profile gives to new tables. #}
    {% set trimmed = 'write.metadata.delete-after-commit.enabled' %}
    {% if trimmed not in adapter.look_at_table(relation).properties %}
        {% do adapter.set_table_properties(relation, {trimmed: 'true'}) %}
    {% endif %}
    {% set expired = run_query(
        "call lake.system.expire_snapshots(table => '" ~ relation
        ~ "', older_than => " ~ oldest ~ ")"
    )[0] %}
    {# Iceberg asks for a day at least, counted from now. #}
    {% set left_over = run_query(
        "call lake.system.remove_orphan_files(table => '" ~ relation
        ~ "', older_than => " ~ _days_ago(1.1) ~ ")"
    ) %}
    {% do log(
        relation ~ ': ' ~ rewritten['rewritten_data_files_count'] ~ ' data files rewritten into '
        ~ rewritten['added_data_files_count'] ~ ', ' ~ expired['deleted_data_files_count']
        ~ ' of expired snapshots and ' ~ left_over | length ~ ' of no snapshot deleted', info=true
    ) %}
{% endmacro %}

{# The materializations of tables that keep a history which only this maintains. #}
{% macro lake_materializations() %}
    {% do return(
        ['append_only', 'change_log', 'current_state', 'history', 'state_table', 'incremental']
    ) %}
{% endmacro %}
