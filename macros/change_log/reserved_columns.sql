{#
  Stops a model that gives a column a name of which the models' own steps have one, in whatever
  case: Spark would take one for the other, or say so in terms of compiled SQL.
#}
{% macro refuse_reserved_columns(columns) %}
    {% for column in columns if column | lower in reserved_columns() %}
        {% do exceptions.raise_compiler_error(
            "a column can't be called " ~ column ~ ': the models have one of that name themselves.'
            ~ ' Give it another, and say what the image calls it: "other": {"type": ..., "name": "'
            ~ column ~ '"}'
        ) %}
    {% endfor %}
{% endmacro %}

{#
  The names of columns that change logs, gold tables and histories have, in any of their steps; and
  Iceberg's own.
#}
{% macro reserved_columns() %}
    {% do return([
        '_all', '_applied', '_before', '_begin', '_begins_life', '_change', '_change_ordinal',
        '_change_type', '_changed_columns', '_columns', '_commit_snapshot_id', '_copies', '_copy',
        '_deleted', '_digest', '_end', '_epoch', '_expires_at', '_file', '_guard_time', '_in_time',
        '_is_clock_ahead', '_is_end', '_is_known_live', '_is_new', '_is_state', '_is_there',
        '_kafka_timestamp', '_known_position', '_known_time', '_last', '_last_life',
        '_last_updated_sequence_number', '_late_events', '_life', '_live', '_max_occurred_at',
        '_misfits', '_namespace', '_next', '_null_position', '_occurred_at', '_operation',
        '_partition', '_pos', '_position', '_previous_key', '_rank', '_record_key', '_row',
        '_row_id', '_set', '_spec_id', '_step', '_sum', '_time', '_unchanged_columns',
        '_valid_from', '_valid_to', '_version',
    ]) %}
{% endmacro %}
