{#
  The body of a typed change log of any format but Aerospike's:
  one row per change of one source table.

      {{ change_log(
          source_table="region", source_database="tpch",
          key={"r_regionkey": "int"},
          columns={"r_name": "string", "r_comment": "string"},
      ) }}

  What is declared here is declared once: gold tables and histories of the log take it from here.

  Arguments:
      source_table, source_schema, source_database: which events; a name, or a list
          of names for tables of one shape that make one (shards, partitions). None, the default of
          the last two, is for events that name none; "*" is for any.
      topic: a Java regular expression for the topics to read; none for all. Needed where two topics
          carry tables of the same name.
      where: SQL over the columns of an event (those of other_events but added_by), for a log of
          some of the events only; none for all.
      key: the key columns and their types. Their values come from the row image,
          else from the record key.
      columns: the value columns and their types. A type is a Spark SQL type (string, boolean, the
          integers, float, double, decimal(p,s), date, timestamp, timestamp_ntz, binary,
          array<...>, map<string,...>), or a mapping {type, name: the field in the image,
          encoding: hbase}, where hbase says that the image holds base64 of what HBase's
          Bytes.toBytes made of the value. Instead of a name there can be a path to a value inside
          of a field, {type, path: "address.city"} or "tags.0"; "$" is the whole image. What the
          source said beside the row is {type, from: "metadata", path: "source.lsn"}: of each event,
          deletes and truncates too, what its `metadata` says there, else null. It
          never has changed nor is unchanged, and is of no key: gold has that of the last event that
          was applied to the row.
      keyless: whether the table has no key: then each row image as a whole is one,
          see dbt_lakehouse/build/sql/current_rows.sql.
      partial: whether images name only some of the columns: one that is absent from an image is
          unchanged then, and not null.
      order_by_source_time: whether an event that is older by its source time than one already
          applied to its key is rejected. Default: no; sources' times are not safe to reject by.
      message_key: the columns of the messages' own keys where those are other ones on purpose
          (Debezium's `message.key.columns`); a list of such lists for several, "*" for any. Without
          it, a run stops this table when messages come with a key of other columns.
      follow: "widening" lets value columns of numbers follow values that have outgrown their types:
          integers to bigint, float to double, decimals to more digits and a greater scale, in
          the log and in what is made of it. None for types as declared: such values are misfits.
      order_by: what the source says of its own order, for messages that can come again or in
          another order: "postgresql", "mysql", "sqlserver" or "oracle" for what Debezium's
          connector says, or a list of columns of the log (a version) and paths of metadata:
          ["source.ts_ns"]. It decides before Kafka's log, and is the first field of `_position`,
          `source`. None for Kafka's log alone.
      reconcile_snapshots: whether keys that a full snapshot of Debezium's did not read are gone:
          once it has ended, the log has a truncate before its first row, with event_index -1.

  Adds `_operation`, `_occurred_at`, `_position`, `_changed_columns` (columns that differ between
  before and after, null where one of them was not shipped), `_unchanged_columns` (columns that the
  change leaves as they were and whose value it does not say, as Debezium does with large values),
  `_previous_key` (the key that an update has replaced; of a keyless table, the row), `_key_update`
  (of a table with a key, what ties the delete and the insert of a key update together: see
  dbt_lakehouse/build/key_updates.py), `_misfits` (values that don't fit their declared type, as
  text: their columns are null; what has changed inside of columns of which the rest is not known:
  those are in `_unchanged_columns` too; and values that nothing says, as Debezium's placeholder)
  and `_kafka_timestamp`; a log of several source tables has `_source` too: the table that the event
  is of. Of a delete, the values are those before it, where shipped.
#}
{% macro change_log(
    columns, source_table, key={}, source_schema=none, source_database=none, topic=none, where=none,
    keyless=false, partial=false, order_by_source_time=none, message_key=none, follow=none,
    order_by=none, reconcile_snapshots=false
) -%}
    {%- set own = {
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
    } -%}
    {%- set payloads = source('bronze', 'raw_payloads') -%}
    {%- set reads = {'events': ref('other_events'), 'payloads': payloads} -%}
    {{ dbt.model_sql('change_log', reads, adapter.declare('change_log', own, kwargs)) }}
{%- endmacro %}

{#
  The body of a typed change log of an Aerospike set: one row per write or delete of a record.

      {{ aerospike_change_log(
          namespace="users", set="profiles", columns={"email": "string", "age": "bigint"}
      ) }}

  The key is `_digest` (base64). Deletes that ship no set are in `set_less_deletes` instead: which
  set they belong to is not known here.

  Arguments:
      namespace: the namespace.
      set: the set, or none for records without one.
      columns: bins and their types, as in change_log; beside them, say,
          {type: "bigint", from: "metadata", path: "generation"}.
      topic, where: as in change_log.
      partial: as in change_log: for connectors that ship changed bins only (`bin-policy`).
      order_by_source_time: as in change_log. Default: yes, for such connectors can re-order.
      follow: as in change_log.

  Adds what change_log adds, but for `_previous_key`, `_key_update`, and, if not partial,
  `_unchanged_columns`; and `_namespace`, `_set`, `_digest` and `_expires_at`.
#}
{% macro aerospike_change_log(
    namespace, set, columns, topic=none, where=none, partial=false, order_by_source_time=none,
    follow=none
) -%}
    {%- set own = {
        'columns': columns,
        'namespace': namespace,
        'set': set,
        'topic': topic,
        'where': where,
        'partial': partial,
        'order_by_source_time': order_by_source_time,
        'follow': follow,
    } -%}
    {%- set payloads = source('bronze', 'raw_payloads') -%}
    {%- set reads = {'events': ref('other_events'), 'payloads': payloads} -%}
    {{ dbt.model_sql('change_log', reads, adapter.declare('aerospike_change_log', own, kwargs)) }}
{%- endmacro %}
