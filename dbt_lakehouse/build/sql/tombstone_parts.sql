{# Parts of statements for tombstones of compacted topics, over the columns of events. #}

{# The key of an event's message. MongoDB's events have the document's key as their record_key. #}
{% macro message_key() %}
coalesce(
    get_json_object(if(contains(metadata, '"bson":'), metadata, null), '$.event_key'),
    record_key
)
{%- endmacro %}

{# Whether an event has only a key: a tombstone, or a null value of rows and documents. #}
{% macro says_nothing() %}
(
    record_key is not null
    and (
        operation = 'tombstone'
        or (
            operation = 'delete'
            and (format like 'debezium_unwrapped_%' or format = 'mongodb_json')
            and before is null
            and source_table is null
        )
    )
)
{%- endmacro %}

{# Debezium's name of a table in the name of a schema, null for another schema. #}
{% macro named_schema(path) %}
nullif(regexp_extract(
    get_json_object(metadata, {{ path | literal }}), '^(.+)[.](?:Key|Value|Envelope)$', 1
), '')
{%- endmacro %}

{#
  Whether the name of a key's schema is of a table: `prefix.schema.table`, in which a converter may
  have put `_` for what Avro's names can't have.
#}
{% macro names_table(schema_name, table) %}
endswith(
    regexp_replace({{ schema_name }}, '[^A-Za-z0-9_.]', '_'),
    concat('.', regexp_replace({{ table }}, '[^A-Za-z0-9_.]', '_'))
)
{%- endmacro %}
