{# Parts of statements: expressions, conditions, lists. Columns are given quoted. #}

{#
  The trusted time of an event; null for one that is too far ahead (fold_of_log.MOST_AHEAD).
#}
{% macro known_time(occurred_at='_occurred_at', kafka_timestamp='_kafka_timestamp') %}
{# With integers: adding an interval to an instant takes Spark longer than reading it. #}
case
    when unix_micros({{ occurred_at }}) > unix_micros({{ kafka_timestamp }}) + {{ most_ahead }}
        then cast(null as timestamp)
    else {{ occurred_at }}
end
{%- endmacro %}

{#
  JSON text of a struct, in which different values differ: by itself, Spark's to_json cuts times to
  milliseconds. XXX is Java's pattern for an offset, Z for UTC.
#}
{% macro exact_json(struct) %}
to_json({{ struct }}, map(
    'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
))
{%- endmacro %}

{#
  The record key of a row in the form of other_events: compact JSON, names sorted. A technical
  column's underscore is not part of the name: `_digest` is {"digest":...}.
#}
{% macro record_key(key) %}
{% set fields %}
{% for column in key | sort(case_sensitive=true) %}
{{ column.strip("`").lstrip("_") | literal }}, {{ column }}{{ ', ' if not loop.last }}
{%- endfor %}
{% endset %}
{{ exact_json('named_struct(' ~ fields ~ ')') }}
{%- endmacro %}

{# Whether an event leaves a column unchanged. #}
{% macro is_unchanged(column) %}
coalesce(array_contains(_unchanged_columns, {{ column.strip("`") | literal }}), false)
{%- endmacro %}

{# Whether target and source differ in a column of any type; nulls are equal. #}
{% macro columns_differ(columns) %}
{{ exact_json('struct(target.' ~ columns | join(', target.') ~ ')') }}
<> {{ exact_json('struct(source.' ~ columns | join(', source.') ~ ')') }}
{%- endmacro %}

{#
  A MERGE that makes rows of a table equal to those of a relation; equal ones stay untouched.

  Arguments:
      target: the table.
      source: the relation, with `columns` and `is_there`.
      key: the columns by which rows are the same.
      columns: the table's columns.
      is_there: the relation's column that says whether the row is to exist.
      is_changed: SQL over target and source, whether an existing row has changed.
      is_near: SQL over target that holds for all rows with one of the keys, so that Spark can skip
          the others.
      has_later: whether a known state may have only another `_max_occurred_at`.
#}
{% macro merge_rows(target, source, key, columns, is_there, is_changed, is_near, has_later=false) %}
merge into {{ target }} as target
using {{ source }} as source
on
    {{ key | each('target.{} <=> source.{}') | join(' and ') }}
    and {{ is_near }}
when matched and not source.{{ is_there }} then delete
when matched and ({{ is_changed }}) then update set
    {{ columns | each('{} = source.{}') | lines | indent }}
{% if has_later %}
when matched
    and source._lh_is_state
    and not target._max_occurred_at <=> source._max_occurred_at
then update set
    _max_occurred_at = source._max_occurred_at
{% endif %}
when not matched and source.{{ is_there }} then insert
    ({{ columns | join(', ') }})
values (source.{{ columns | join(', source.') }})
{%- endmacro %}

{#
  A condition that holds for all rows of the keys that a run touches: the ranges of the first key
  column. Their bounds are markers of arguments (key_ranges.KeyRanges), because keys are often
  personal data, and dbt writes each statement to its log. Without ranges, the condition is true.
#}
{% macro is_in_key_ranges(column, ranges) %}
(
{%- for low, high in ranges %}
{{ column }} between {{ low }} and {{ high }}{{ ' or ' if not loop.last }}
{%- else %}
true
{%- endfor %}
)
{%- endmacro %}

{#
  Whether a place lies behind the purge horizon. A place without a log time comes before all others.
#}
{% macro is_behind(horizon, position, time) %}
(
    {{ position }}.log_time is null
    or {{ position }}.log_time <= timestamp '{{ horizon }}'
    or coalesce({{ time }} <= timestamp '{{ horizon }}', false)
)
{%- endmacro %}

{# A log position in the form of deleted_keys, which has the source's place beside it. #}
{% macro remembered(position, by_source) %}
{% if by_source %}
if({{ position }} is null, null, {{ payload_parts.event_position(position) }})
{%- else %}
{{ position }}
{%- endif %}
{%- endmacro %}

{# A position of deleted_keys in the form of the log. #}
{% macro position(relation, by_source) %}
{% if by_source %}
{{ payload_parts.event_position(relation ~ '.position', relation ~ '.source_place') }}
{%- else %}
{{ relation }}.position
{%- endif %}
{%- endmacro %}

{# Whether two places are of the same event. Its place in its source's order may have changed. #}
{% macro is_same_event(one, other) %}
{{ one }}.topic = {{ other }}.topic
and {{ one }}.partition = {{ other }}.partition
and {{ one }}.offset = {{ other }}.offset
and {{ one }}.event_index = {{ other }}.event_index
{%- endmacro %}

{# Whether the row that an event finds has expired. #}
{% macro begins_life(key, order) %}
coalesce(
    lag(_expires_at) over (partition by {{ key | join(', ') }} order by {{ order }})
    <= coalesce(_lh_guard_time, _position.log_time),
    false
)
{%- endmacro %}

{# Whether an event is not a truncate of a source table other than that of the row before it. #}
{% macro is_effective(key) %}
_operation <> 'truncate' or coalesce(
    last_value(if(_operation <> 'truncate', struct(_source), null), true) over (
        partition by {{ key | join(', ') }}
        order by _position
        rows between unbounded preceding and 1 preceding
    )._source = _source,
    false
)
{%- endmacro %}
