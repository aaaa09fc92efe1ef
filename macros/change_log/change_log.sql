{#
  The body of a typed change log of any format but Aerospike's:
  one row per change of one source table.

      {{ change_log(
          source_table="region", source_database="tpch",
          key={"r_regionkey": "int"},
          columns={"r_name": "string", "r_comment": "string"},
      ) }}

  The declaration is made only here: gold tables and histories of the log take it from here.

  Arguments:
      source_table, source_schema, source_database: the events to take; a name, or a list of names
          for tables of one shape that form one table (shards, partitions). None, the default of
          the last two, is for events that name none; "*" is for any.
      topic: a Java regular expression for the topics to read; none for all. It is needed if two
          topics have tables of the same name.
      where: SQL over the columns of an event (those of other_events but added_by), for a log of
          some of the events only; none for all.
      key: the key columns and their types. Their values come from the row image,
          else from the record key.
      columns: the value columns and their types. A type is a Spark SQL type (string, boolean, the
          integers, float, double, decimal(p,s), date, timestamp, timestamp_ntz, binary,
          array<...>, map<string,...>), or a mapping {type, name: the field in the image,
          encoding: hbase}, where hbase means that the image has the base64 of the value in the
          encoding of HBase's Bytes.toBytes. Instead of a name there can be a path to a value
          inside a field, {type, path: "address.city"} or "tags.0"; "$" is the whole image. A value
          that the source sent beside the row is {type, from: "metadata", path: "source.lsn"}: the
          value at that path in the `metadata` of each event, deletes and truncates included, else
          null. It never counts as changed or unchanged, and belongs to no key: gold has that of the
          last event that was applied to the row. A Kafka header of the message is
          {type, from: "headers", path: "trace_id"}, and follows the same rules.
      keyless: whether the table has no key; each whole row image is then its own key, see
          dbt_lakehouse/build/sql/current_rows.sql.
      partial: whether images contain only some of the columns; a column that is absent from an
          image is then unchanged, and not null.
      order_by_source_time: whether an event that is older by its source time than one already
          applied to its key is rejected. Default: no, because sources' times are not reliable
          enough for that.
      message_key: the columns of the messages' keys if they differ from the declared key on purpose
          (Debezium's `message.key.columns`); a list of such lists for several, "*" for any. Without
          it, a run stops this table when messages come with a key of other columns.
      follow: "widening" lets value columns of numbers follow values that have outgrown their types:
          integers to bigint, float to double, decimals to more digits and a greater scale, in the
          log and in its tables. None for types as declared: such values are misfits.
      order_by: the source's own order, for messages that can come again or in another order:
          "postgresql", "mysql", "sqlserver" or "oracle" for that of Debezium's connector, or a list
          of columns of the log (a version) and paths of metadata: ["source.ts_ns"]. It takes
          precedence over Kafka's log, and is the first field of `_position`, `source`. None for
          Kafka's log alone.
      reconcile_snapshots: whether a full Debezium snapshot deletes the keys that it did not read:
          once it has ended, the log has a truncate before its first row, with event_index -1.

  Adds `_operation`, `_occurred_at`, `_position`, `_changed_columns` (columns that differ between
  before and after, null if one of them was not shipped), `_unchanged_columns` (columns that the
  change leaves unchanged without shipping their values, as Debezium does with large values),
  `_previous_key` (the key that an update has replaced; for a keyless table, the row), `_key_update`
  (for a table with a key, the link between the delete and the insert of a key update, see
  dbt_lakehouse/build/key_updates.py), `_misfits` and `_kafka_timestamp`. A log of several source
  tables also has `_source`, the event's table. A delete has the values before it, if shipped.

  `_misfits` has values that don't fit their declared type, as text (their columns are null);
  changes inside columns whose other contents are unknown (these are in `_unchanged_columns` too);
  and unknown values, as Debezium's placeholder.
#}
{% macro change_log(
    columns, source_table, key={}, source_schema=none, source_database=none, topic=none, where=none,
    keyless=false, partial=false, order_by_source_time=none, message_key=none, follow=none,
    order_by=none, reconcile_snapshots=false
) -%}
    {{ adapter.model_sql('change_log', context, {
        'events': ref('other_events'), 'payloads': source('bronze', 'raw_payloads')
    }, adapter.declare('change_log', {
        'columns': columns,
        'source_table': source_table,
        'key': key,
        'source_schema': source_schema,
        'source_database': source_database,
        'topic': topic,
        'where': where,
        'keyless': keyless,
        'partial': partial,
        'order_by_source_time': order_by_source_time,
        'message_key': message_key,
        'follow': follow,
        'order_by': order_by,
        'reconcile_snapshots': reconcile_snapshots,
    }, kwargs)) }}
{%- endmacro %}

{#
  The body of a typed change log of an Aerospike set: one row per write or delete of a record.

      {{ aerospike_change_log(
          namespace="users", set="profiles", columns={"email": "string", "age": "bigint"}
      ) }}

  The key is `_digest` (base64). Deletes that ship no set are in `set_less_deletes` instead, because
  their set is not known here.

  Arguments:
      namespace: the namespace.
      set: the set, or none for records without one.
      columns: bins and their types, as in change_log; beside them, say,
          {type: "bigint", from: "metadata", path: "generation"}.
      topic, where: as in change_log.
      partial: as in change_log: for connectors that ship changed bins only (`bin-policy`).
      order_by_source_time: as in change_log. Default: yes, because such connectors can re-order.
      follow: as in change_log.

  Adds the columns of change_log, except `_previous_key`, `_key_update`, and, if not partial,
  `_unchanged_columns`; and `_namespace`, `_set`, `_digest` and `_expires_at`.
#}
{% macro aerospike_change_log(
    namespace, set, columns, topic=none, where=none, partial=false, order_by_source_time=none,
    follow=none
) -%}
    {{ adapter.model_sql('change_log', context, {
        'events': ref('other_events'), 'payloads': source('bronze', 'raw_payloads')
    }, adapter.declare('aerospike_change_log', {
        'columns': columns,
        'namespace': namespace,
        'set': set,
        'topic': topic,
        'where': where,
        'partial': partial,
        'order_by_source_time': order_by_source_time,
        'follow': follow,
    }, kwargs)) }}
{%- endmacro %}
