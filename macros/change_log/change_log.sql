{#
  The body of a typed change log of any format but Aerospike's: one row per change of one source table.

      {{ change_log(
          source_table="region", source_database="tpch",
          key={"r_regionkey": "int"},
          columns={"r_name": "string", "r_comment": "string"},
      ) }}

  Arguments:
      source_table, source_schema, source_database: which events of change_events; none matches any.
      topic: a Java regular expression for the topics to read; none for all. Needed where two topics carry tables of
          the same name.
      key: the key columns and their types. Their values come from the row image, else from the record key.
      columns: the value columns and their types. A type is a Spark SQL type (string, boolean, the integers, float,
          double, decimal(p,s), date, timestamp, timestamp_ntz, binary, array<...>, map<string,...>), or a mapping
          {type, name: the field in the image, encoding: hbase}, where hbase says that the image holds base64 of what
          HBase's Bytes.toBytes made of the value.

  Adds `_operation`, `_occurred_at`, `_position`, `_changed_columns` (columns that differ between before and after, null
  where one of them was not shipped), `_unchanged_columns` (columns that the change leaves as they were and whose value
  it does not say, as Debezium does with large values), `_previous_key` (the key that an update has replaced),
  `_misfits` (values that don't fit their declared type, as text: their columns are null) and `_kafka_timestamp`. Of a
  delete, the values are those before it, where shipped.
#}
{% macro change_log(key, columns, source_table, source_schema=none, source_database=none, topic=none) -%}
    {%- if not key -%}
        {%- do exceptions.raise_compiler_error(
            'the change log of ' ~ source_table ~ ' needs its key columns: key={"column": "type"}. Lindorm and Arcion tables'
            ~ ' without a key ship none, so they must be declared'
        ) -%}
    {%- endif -%}
    {%- set specs = _column_specs(key, columns) -%}
    {%- set conditions = ["format not in ('aerospike_messagepack', 'aerospike_json')"] -%}
    {%- for name, value in [
        ('source_table', source_table), ('source_schema', source_schema), ('source_database', source_database)
    ] if value is not none -%}
        {%- do conditions.append(name ~ ' = ' ~ sql_text(value)) -%}
    {%- endfor -%}
    {%- if topic -%}
        {%- do conditions.append('topic rlike ' ~ sql_text('^(?:' ~ topic ~ ')$')) -%}
    {%- endif -%}
    {{ _change_log(specs, key.keys() | list, conditions, []) }}
{%- endmacro %}

{#
  The body of a typed change log of an Aerospike set: one row per write or delete of a record.

      {{ aerospike_change_log(namespace="users", set="profiles", columns={"email": "string", "age": "bigint"}) }}

  The key is `_digest` (base64). Deletes that ship no set are in `set_less_deletes` instead: which set they belong to is
  not known here.

  Arguments:
      namespace: the namespace.
      set: the set, or none for records without one.
      columns: bins and their types, as in change_log.
      topic: as in change_log.

  Adds what change_log adds, but for `_unchanged_columns` and `_previous_key`, and `_namespace`, `_set`, `_digest` and
  `_expires_at`.
#}
{% macro aerospike_change_log(namespace, set, columns, topic=none) -%}
    {%- set conditions = [
        "format in ('aerospike_messagepack', 'aerospike_json')",
        'source_schema = ' ~ sql_text(namespace),
        'source_table = ' ~ sql_text(set) if set is not none else 'source_table is null',
    ] -%}
    {%- if topic -%}
        {%- do conditions.append('topic rlike ' ~ sql_text('^(?:' ~ topic ~ ')$')) -%}
    {%- endif -%}
    {%- set technical = [
        "source_schema as _namespace",
        "source_table as _set",
        "get_json_object(record_key, '$.digest') as _digest",
        "expires_at as _expires_at",
    ] -%}
    {{ _change_log(_column_specs({}, columns), [], conditions, technical) }}
{%- endmacro %}

{# Every column with its type, its field in the image, and its encoding. #}
{% macro _column_specs(key, columns) %}
    {% set specs = [] %}
    {% for name, declared in dict(key, **columns).items() %}
        {% set spec = {'type': declared} if declared is string else declared %}
        {% do specs.append({
            'column': name,
            'type': spec.type | lower,
            'field': spec.get('name', name),
            'encoding': spec.get('encoding'),
        }) %}
    {% endfor %}
    {% do return(specs) %}
{% endmacro %}

{% macro _change_log(specs, key, conditions, technical) -%}
    {%- set fields = [] -%}
    {%- for spec in specs -%}
        {%- do fields.append(sql_text(spec.field)) -%}
    {%- endfor -%}
    {%- set fields = 'array(' ~ fields | join(', ') ~ ')' -%}
    {#- For tests of the log: what it takes of which events. -#}
    {{- config(meta={'change_log': {
        'fields': specs | map(attribute='field') | list,
        'columns': specs,
        'key': key,
        'conditions': conditions,
    }}) -}}
with change_events as (
    select * from {{ new_rows(ref('change_events')) }}
),

relevant as (
    select * from change_events
    where
        operation in ('snapshot', 'insert', 'update', 'upsert', 'delete', 'truncate')
        {%- for condition in conditions %}
        and {{ condition }}
        {%- endfor %}
),

-- One parse for each image, into the exact text of the declared fields; the types come from the text.
parsed as (
    select
        *,
        json_texts(before, {{ fields }}) as before_texts,
        json_texts(after, {{ fields }}) as after_texts,
        json_texts(record_key, {{ fields }}) as key_texts
    from relevant
),

texts as (
    select
        *,
        {%- for spec in specs %}
        {% set shipped = 'coalesce(after_texts, before_texts)[' ~ loop.index0 ~ ']' -%}
        {% if spec.column in key -%}
        coalesce({{ shipped }}, key_texts[{{ loop.index0 }}])
        {%- elif key -%}
        nullif(
            case when {{ _is_unavailable('after_texts', loop.index0) }} then before_texts[{{ loop.index0 }}] else {{ shipped }} end,
            '__debezium_unavailable_value'
        )
        {%- else -%}
        {{ shipped }}
        {%- endif %} as `shipped_{{ spec.column }}`{{ ',' if not loop.last }}
        {%- endfor %}
    from parsed
),

decoded as (
    select
        *,
        {%- for spec in specs %}
        {% if spec.encoding == 'hbase' -%}
        decode_hbase(`shipped_{{ spec.column }}`, '{{ spec.type }}') as `text_{{ spec.column }}`
        {%- else -%}
        `shipped_{{ spec.column }}` as `text_{{ spec.column }}`
        {%- endif %}
        {{- ',' if not loop.last }}
        {%- endfor %}
    from texts
),

typed as (
    select
        *,
        {%- for spec in specs %}
        {{ typed_value('`text_' ~ spec.column ~ '`', spec.type) }} as `value_{{ spec.column }}`{{ ',' if not loop.last }}
        {%- endfor %}
    from decoded
),

final as (
    select
        {%- for column in technical %}
        {{ column }},
        {%- endfor %}
        {%- for spec in specs %}
        `value_{{ spec.column }}` as `{{ spec.column }}`,
        {%- endfor %}
        operation as _operation,
        occurred_at as _occurred_at,
        {{ event_position('typed') }} as _position,
        case
            when before_texts is not null and after_texts is not null then filter(
                array(
                    {%- for spec in specs %}
                    case
                        when
                            not before_texts[{{ loop.index0 }}] <=> after_texts[{{ loop.index0 }}]
                            {%- if key %}
                            and not {{ _is_unavailable('after_texts', loop.index0) }}
                            {%- endif %}
                            then {{ sql_text(spec.column) }}
                    end{{ ',' if not loop.last }}
                    {%- endfor %}
                ),
                name -> name is not null
            )
        end as _changed_columns,
        {%- if key %}
        filter(
            array(
                {%- for spec in specs %}
                case
                    when
                        {{ _is_unavailable('after_texts', loop.index0) }}
                        and `shipped_{{ spec.column }}` is null
                        then {{ sql_text(spec.column) }}
                end{{ ',' if not loop.last }}
                {%- endfor %}
            ),
            name -> name is not null
        ) as _unchanged_columns,
        case
            when
                operation = 'update'
                and (
                    {%- for spec in specs if spec.column in key %}
                    not {{ _previous_value(spec, specs) }} <=> `value_{{ spec.column }}`
                    {{- ' or' if not loop.last }}
                    {%- endfor %}
                )
                then named_struct(
                    {%- for spec in specs if spec.column in key %}
                    {{ sql_text(spec.column) }}, {{ _previous_value(spec, specs) }}{{ ',' if not loop.last }}
                    {%- endfor %}
                )
        end as _previous_key,
        {%- endif %}
        filter(
            array(
                {%- for spec in specs %}
                case
                    when `shipped_{{ spec.column }}` is not null and `value_{{ spec.column }}` is null
                        then named_struct('column', {{ sql_text(spec.column) }}, 'text', `shipped_{{ spec.column }}`)
                end{{ ',' if not loop.last }}
                {%- endfor %}
            ),
            misfit -> misfit is not null
        ) as _misfits,
        timestamp as _kafka_timestamp
    from typed
)

select * from final
{%- endmacro %}

{# Whether an image has Debezium's placeholder for a value that was too large to be in the source's log. #}
{% macro _is_unavailable(texts, index) -%}
    {{ texts }}[{{ index }}] <=> '__debezium_unavailable_value'
{%- endmacro %}

{# A key column's value before an update; that after it where the image before has none. #}
{% macro _previous_value(spec, specs) -%}
    {%- if spec.encoding -%}
        `value_{{ spec.column }}`
    {%- else -%}
        coalesce({{ typed_value('before_texts[' ~ specs.index(spec) ~ ']', spec.type) }}, `value_{{ spec.column }}`)
    {%- endif -%}
{%- endmacro %}
