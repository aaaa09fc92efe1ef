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
      source_table, source_schema, source_database: which events of change_events; a name, or a list
          of names for tables of one shape that make one (shards, partitions). None, the default of
          the last two, is for events that name none; "*" is for any.
      topic: a Java regular expression for the topics to read; none for all. Needed where two topics
          carry tables of the same name.
      where: SQL over change_events, for a log of some of the events only; none for all.
      key: the key columns and their types. Their values come from the row image,
          else from the record key.
      columns: the value columns and their types. A type is a Spark SQL type (string, boolean, the
          integers, float, double, decimal(p,s), date, timestamp, timestamp_ntz, binary,
          array<...>, map<string,...>), or a mapping {type, name: the field in the image,
          encoding: hbase}, where hbase says that the image holds base64 of what HBase's
          Bytes.toBytes made of the value. Instead of a name there can be a path to a value inside
          of a field, {type, path: "address.city"} or "tags.0"; "$" is the whole image.
      keyless: whether the table has no key: then each row image as a whole is one,
          see macros/history/current_rows.sql.
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

  Adds `_operation`, `_occurred_at`, `_position`, `_changed_columns` (columns that differ between
  before and after, null where one of them was not shipped), `_unchanged_columns` (columns that the
  change leaves as they were and whose value it does not say, as Debezium does with large values),
  `_previous_key` (the key that an update has replaced; of a keyless table, the row), `_key_update`
  (of a table with a key, what ties the delete and the insert of a key update together: see
  key_updates.sql), `_misfits` (values that don't fit their declared type, as text: their columns
  are null; what has changed inside of columns of which the rest is not known: those are in
  `_unchanged_columns` too; and values that nothing says, as Debezium's placeholder) and
  `_kafka_timestamp`; a log of several source tables has `_source` too, which one the event is of.
  Of a delete, the values are those before it, where shipped.
#}
{% macro change_log(
    columns, source_table, key={}, source_schema=none, source_database=none, topic=none, where=none,
    keyless=false, partial=false, order_by_source_time=none, message_key=none, follow=none
) -%}
    {{ _declare_change_log({
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
    }) }}
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
      columns: bins and their types, as in change_log.
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
    {{ _declare_change_log({
        'columns': columns,
        'namespace': namespace,
        'set': set,
        'key': {},
        'topic': topic,
        'where': where,
        'keyless': false,
        'partial': partial,
        'order_by_source_time': order_by_source_time,
        'follow': follow,
    }) }}
{%- endmacro %}

{#
  Declares a model a change log, and gives the SQL of its body. The declaration stays in the
  model's meta, where gold tables, tests, and runs that find it changed look it up.
#}
{% macro _declare_change_log(arguments) -%}
    {%- set log = adapter.declare_change_log(arguments) -%}
    {{- config(materialized='change_log', meta={'change_log': log}) -}}
    {%- set events, keys, places = ref('change_events'), [], none -%}
    {%- if is_building() -%}
        {%- if not should_full_refresh() -%}
            {%- set log = adapter.followed(log, this) -%}
        {%- endif -%}
        {%- set run = begin_run([events], log, wanted=log.sources) -%}
        {%- set events = run.rows(events.render()) -%}
        {%- set keys = adapter.keys_allowed(this, log) -%}
        {%- if log.namespace is none -%}
            {%- set places = _place_truncates(run, log) -%}
        {%- endif -%}
    {%- endif -%}
    {{ change_log_sql(log, events, keys, places) }}
{%- endmacro %}

{#
  Finds the log times of new events around truncates (dbt_lakehouse/dbt/truncate_order.py): a view
  of those that are others than in change_events, or none.

  Arguments:
      run: the NodeRun.
      log: the declaration.
#}
{% macro _place_truncates(run, log) %}
    {% set placed = adapter.place_truncates(this, run, log, view_of('places')) %}
    {% if placed.ties %}
        {% do log_info(
            this ~ ': ' ~ placed.ties ~ ' rows have the Kafka timestamp of a truncate in another'
            ~ ' partition. Their source says no order, so they count as later ones and stay'
        ) %}
        {% do add_counters(table_scope(this), {'truncate_ties': placed.ties}) %}
    {% endif %}
    {% do return(placed.view) %}
{% endmacro %}

{#
  The rows of a change log.

  Arguments:
      log: its declaration.
      change_events: the rows of change_events to make them from, as SQL of a relation.
      keys: the names that the events' record keys may have, a list for each; the query fails on
          others. None for any.
      places: a relation of events that get another log time (`placed_at`), or none for no such one.
      former: given if events with other keys come before all others (former_keys.sql): what fields
          of the key were called in those, by their names.
#}
{% macro change_log_sql(log, change_events, keys=[], places=none, former=none) -%}
    {%- set specs = log.columns -%}
    {%- set key_columns = [] if log.keyless else log.key -%}
    {%- set key_fields = specs | selectattr('column', 'in', key_columns)
        | map(attribute='field') | list -%}
    {%- set fields = [] -%}
    {%- for spec in specs -%}
        {%- do fields.append(spec['path'] if 'path' in spec else spec.field) -%}
    {%- endfor -%}
    {%- set has_former = former is not none -%}
    {%- set former_fields = (former or {}).values() | list -%}
    {%- set all_fields = fields + (former_fields | reject('in', fields) | list) -%}
    {%- set fields = tojson(
        [all_fields, key_fields + former_fields] + ([keys] if keys else [])
    ) -%}
    {%- set updates_keys = log.key and not log.keyless -%}
    {%- set rows = 'told' if updates_keys else 'compared' if log.key else 'typed' -%}
with change_events as (
    select * from {{ change_events }}
),

{% if places -%}
moved as (
    select
        change_events.* except (log_time),
        coalesce(places.placed_at, change_events.log_time) as log_time
    from change_events
    left join {{ places }} as places using (topic, partition, offset, event_index)
),

{% endif -%}
relevant as (
    select
        *
        {%- if updates_keys %},
        if(
            operation in ('insert', 'upsert') and contains(metadata, '"old_key":'),
            get_json_object(metadata, '$.old_key'),
            null
        ) as old_key,
        if(
            operation = 'delete' and contains(metadata, '"new_key":'),
            get_json_object(metadata, '$.new_key'),
            null
        ) as new_key
        {%- endif %}
    from {{ 'moved' if places else 'change_events' }}
    where
        operation in ('snapshot', 'insert', 'update', 'upsert', 'delete', 'truncate')
        {%- for condition in log.conditions %}
        and {{ condition }}
        {%- endfor %}
),

-- One parse for each image, into the exact text of the declared fields;
-- the types come from the text.
parsed as (
    select
        *,
        row_texts(
            {{ 'coalesce(before, old_key)' if updates_keys else 'before' }},
            after,
            record_key,
            {{ sql_text(fields) }}
        ) as row_texts
        {%- if log.partial %},
        json_object_keys(after) as after_names,
        json_object_keys(before) as before_names
        {%- endif %}
    from relevant
),

texts as (
    select
        *,
        {%- for spec in specs %}
        {% set shipped = _shipped_text(log, spec, loop.index0) -%}
        {% if spec.column in key_columns -%}
        coalesce(
            {{ _said(shipped) }},
            case
                when before is not null and {{ _is_unavailable('row_texts.after', loop.index0) }}
                    then {{ _said('row_texts.before[' ~ loop.index0 ~ ']') }}
            end,
            {{ _said('row_texts.key[' ~ key_columns.index(spec.column) ~ ']') }}
            {%- if has_former and spec.field in former %}
            {%- set name = former[spec.field] %},
            coalesce(row_texts.after, row_texts.before)[{{ all_fields.index(name) }}],
            row_texts.key[{{ key_columns | length + former_fields.index(name) }}]
            {%- endif %}
        )
        {%- elif log.key -%}
        case
            when {{ _is_unavailable('row_texts.after', loop.index0) }}
                then {{ _said('row_texts.before[' ~ loop.index0 ~ ']') }}
            else {{ _said(shipped) }}
        end
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

{{ 'as_sent' if has_former else 'typed' }} as (
    select
        *,
        {%- for spec in specs %}
        {{ typed_value('`text_' ~ spec.column ~ '`', spec.type) }}
            as `value_{{ spec.column }}`{{ ',' if not loop.last }}
        {%- endfor %}
    from decoded
),
{%- if has_former %}

{{ former_keys_sql(log) }}
{%- endif %}

{% if log.key -%}
compared as (
    select
        *,
        {{ _unchanged_columns(log) | indent(8) }} as unchanged_columns,
        {{ _previous_key(log, has_former) | indent(8) }} as previous_key
        {%- if updates_keys %},
        {{ _key_before(log) | indent(8) }} as key_before
        {%- endif %}
    from typed
),

{% if updates_keys -%}
told as (
    select
        *,
        {{ _key_update(log) | indent(8) }} as key_update
    from compared
),

{% endif -%}
{% endif -%}
final as (
    select
        {%- for column in log.technical %}
        {{ column }},
        {%- endfor %}
        {%- for spec in specs %}
        `value_{{ spec.column }}` as `{{ spec.column }}`,
        {%- endfor %}
        {% if keys and not has_former -%}
        if(row_texts.has_other_key, {{ adapter.refusal_of_keys() }}, operation) as _operation,
        {%- else -%}
        operation as _operation,
        {%- endif %}
        occurred_at as _occurred_at,
        {{ event_position(rows) }} as _position,
        case
            when before is not null and row_texts.after is not null then array_remove(
                array(
                    {%- for spec in specs %}
                    if(
                        not row_texts.before[{{ loop.index0 }}]
                        <=> row_texts.after[{{ loop.index0 }}]
                        {%- if log.key %}
                        and not {{ _is_unavailable('row_texts.after', loop.index0) }}
                        {%- endif %}
                        {%- if log.partial %}
                        and array_contains(after_names, {{ sql_text(spec.field) }})
                        {%- endif %},
                        {{ sql_text(spec.column) }},
                        ''
                    ){{ ',' if not loop.last }}
                    {%- endfor %}
                ),
                ''
            )
        end as _changed_columns,
        {%- if log.key %}
        unchanged_columns as _unchanged_columns,
        previous_key as _previous_key,
        {%- elif log.partial %}
        {{ _unchanged_columns(log) | indent(8) }} as _unchanged_columns,
        {%- endif %}
        -- Asked first whether there is any: to filter takes longer than to type the values.
        case
            when
                {%- for spec in specs %}
                `shipped_{{ spec.column }}` is not null
                and `value_{{ spec.column }}` is null or
                {%- endfor %}
                row_texts.parts is not null
                {%- if updates_keys %}
                or array_contains(row_texts.after, '__debezium_unavailable_value')
                or array_contains(row_texts.before, '__debezium_unavailable_value')
                or key_update.key_before is not null
                {%- endif %}
                then filter(
                    array(
                        {%- for spec in specs %}
                        case
                            when
                                `shipped_{{ spec.column }}` is not null
                                and `value_{{ spec.column }}` is null
                                then named_struct(
                                    'column', {{ sql_text(spec.column) }},
                                    'text', `shipped_{{ spec.column }}`
                                )
                            -- What it is now nobody knows: in gold it stays what it was.
                            when row_texts.parts[{{ loop.index0 }}] is not null
                                then named_struct(
                                    'column', {{ sql_text(spec.column) }},
                                    'text', row_texts.parts[{{ loop.index0 }}]
                                )
                            {%- if updates_keys %}
                            when {{ _is_unknown(log, spec, loop.index0) }}
                                then named_struct(
                                    'column', {{ sql_text(spec.column) }},
                                    'text', '__debezium_unavailable_value'
                                )
                            {%- endif %}
                        end{{ ',' if not loop.last }}
                        {%- endfor %}
                    ),
                    misfit -> misfit is not null
                )
            else cast(array() as array<struct<column: string, text: string>>)
        end as _misfits,
        timestamp as _kafka_timestamp
    from {{ rows }}
)

select * from final
{%- endmacro %}

{#
  Whether an image has Debezium's placeholder for a value that was too large
  to be in the source's log.
#}
{% macro _is_unavailable(texts, index) -%}
    {{ texts }}[{{ index }}] <=> '__debezium_unavailable_value'
{%- endmacro %}

{# A text, or null where it is the placeholder. #}
{% macro _said(text) -%}
    nullif({{ text }}, '__debezium_unavailable_value')
{%- endmacro %}

{# The text of a column in the image that says it: of a full image, one that lacks it says null. #}
{% macro _shipped_text(log, spec, index) -%}
    {%- if log.partial -%}
        if(
            array_contains(after_names, {{ sql_text(spec.field) }}),
            row_texts.after[{{ index }}],
            row_texts.before[{{ index }}]
        )
    {%- else -%}
        coalesce(row_texts.after, row_texts.before)[{{ index }}]
    {%- endif -%}
{%- endmacro %}

{#
  The columns that a change leaves as they were without saying their values. No column is called '':
  Spark generates code to remove it from an array, and none for `filter`.
#}
{% macro _unchanged_columns(log) -%}
{%- set names -%}
array_remove(
    array(
        {%- for spec in log.columns %}
        case
            {%- if log.key %}
            when
                {{ _is_unavailable('row_texts.after', loop.index0) }}
                and `shipped_{{ spec.column }}` is null
                then {{ sql_text(spec.column) }}
            {%- endif %}
            {%- if log.partial and spec.column not in log.key %}
            when
                after is not null
                and not array_contains(after_names, {{ sql_text(spec.field) }})
                and not coalesce(array_contains(before_names, {{ sql_text(spec.field) }}), false)
                then {{ sql_text(spec.column) }}
            {%- endif %}
            else ''
        end{{ ',' if not loop.last }}
        {%- endfor %}
    ),
    ''
)
{%- endset -%}
{%- if log.partial -%}
    {{ names }}
{%- else -%}
case
    when array_contains(row_texts.after, '__debezium_unavailable_value')
        then {{ names | indent(4) }}
    else cast(array() as array<string>)
end
{%- endif -%}
{%- endmacro %}

{# The key that an update has replaced; of a keyless table, the row. #}
{% macro _previous_key(log, has_former) -%}
{%- set specs = log.columns | selectattr('column', 'in', log.key) | list -%}
case
    {%- if log.keyless %}
    when operation = 'update' and row_texts.before is not null
    {%- else %}
    when
        operation = 'update'
        {%- if has_former %}
        and not is_apart
        {%- endif %}
        and (
            {%- for spec in specs %}
            not {{ _previous_value(log, spec, has_former) }} <=> `value_{{ spec.column }}`
            {{- ' or' if not loop.last }}
            {%- endfor %}
        )
    {%- endif %}
        then named_struct(
            {%- for spec in specs %}
            {{ sql_text(spec.column) }},
            {{ _previous_value(log, spec, has_former) }}{{ ',' if not loop.last }}
            {%- endfor %}
        )
end
{%- endmacro %}

{# The key that an insert's row had before a key update, as a header names it. #}
{% macro _key_before(log) -%}
{%- set specs = log.columns | selectattr('column', 'in', log.key) | list -%}
case
    when
        old_key is not null
        {%- for spec in specs %}
        and {{ _old_value(log, spec) }} is not null
        {%- endfor %}
        then named_struct(
            {%- for spec in specs %}
            {{ sql_text(spec.column) }}, {{ _old_value(log, spec) }}{{ ',' if not loop.last }}
            {%- endfor %}
        )
end
{%- endmacro %}

{# A key column's value in the header that names the old key. #}
{% macro _old_value(log, spec) -%}
    {{ typed_value(_said('row_texts.before[' ~ log.columns.index(spec) ~ ']'), spec.type) }}
{%- endmacro %}

{#
  What an event says of a key update (macros/change_log/key_updates.sql): `id`, which its delete and
  its insert share, and of a source's change `change`; of the insert, the `key_before` that its row
  had, and the `columns` that are as they were there. Null for all other events.
#}
{% macro _key_update(log) -%}
case
    when key_before is not null or new_key is not null then named_struct(
        'id',
        md5(concat_ws(' ', coalesce(old_key, record_key), coalesce(new_key, record_key))),
        'change',
        -- What the transform adds to a row, a null value of the same change lacks.
        if(
            format like 'debezium_unwrapped_%',
            null,
            md5(get_json_object(metadata, '$.source'))
        ),
        'key_before', key_before,
        'columns', if(key_before is not null, unchanged_columns, null)
    )
end
{%- endmacro %}

{#
  Whether nothing is known of a column: of the key, since nothing says it; of a row that is new or
  has a new key, since no row before it is known, or none has been looked up yet.
#}
{% macro _is_unknown(log, spec, index) -%}
    {%- set unavailable = _is_unavailable('row_texts.after', index) -%}
    {%- if spec.column in log.key -%}
    `shipped_{{ spec.column }}` is null
    and ({{ unavailable }} or {{ _is_unavailable('row_texts.before', index) }})
    {%- else -%}
    array_contains(unchanged_columns, {{ sql_text(spec.column) }})
    and (
        key_update.key_before is not null
        or (
            {{ unavailable }}
            and (operation in ('snapshot', 'insert') or previous_key is not null)
        )
    )
    {%- endif -%}
{%- endmacro %}

{#
  A key column's value before an update; where the image before has none, that of the events before
  (has_former), else that after it.
#}
{% macro _previous_value(log, spec, has_former) -%}
    {%- set text = 'row_texts.before[' ~ log.columns.index(spec) ~ ']' -%}
    {%- set before = typed_value(text if log.keyless else _said(text), spec.type) -%}
    {%- if log.keyless -%}
        {{ before }}
    {%- elif spec.encoding -%}
        `value_{{ spec.column }}`
    {%- else -%}
        coalesce(
            {{ before }},
            {%- if has_former %}
            `former_{{ spec.column }}`,
            {%- endif %}
            `value_{{ spec.column }}`
        )
    {%- endif -%}
{%- endmacro %}
