{# The log as far as the model's own SQL, compiled a moment ago, reads it. #}
{% macro _as_noted(relation) %}
    {% set mark = _noted_properties()[
        'lakehouse.read.' ~ relation.schema ~ '.' ~ relation.identifier
    ] %}
    {% do return(_pinned(relation, {'snapshot': mark.split('|')[1]})) %}
{% endmacro %}

{#
  A table as it is now, to select from. This model writes to tables that it reads, as others do at
  the same time, and an evaluated view of which a part is lost (with an executor) is evaluated
  again: only fixed snapshots stay what they were.
#}
{% macro _pinned(relation, state=none) %}
    {% set snapshot = (state or _table_state(relation)).snapshot %}
    {# Not a subquery of the one with rows: that would hide the rows' sequence numbers. #}
    {% do return(
        '(select *, cast(null as bigint) as _last_updated_sequence_number'
        ~ ' from ' ~ relation ~ ' where false)'
        if snapshot == 'none' else relation ~ ' version as of ' ~ snapshot
    ) %}
{% endmacro %}

{#
  The running model's own table as it is now. A column that a run has added since the table's last
  commit is not in its last snapshot: it has no values yet.

  Arguments:
      to_fill: columns that are to be filled, as follow_schema returns them.
#}
{% macro pinned_self(to_fill) %}
    {% set pinned = _pinned(this) %}
    {% set missing = [] %}
    {% if to_fill %}
        {% set held = run_query('select * from ' ~ pinned ~ ' limit 0').column_names %}
        {% for column in adapter.get_columns_in_relation(this) if column.name not in held %}
            {% do missing.append('cast(null as ' ~ column.dtype ~ ') as ' ~ column.quoted) %}
        {% endfor %}
    {% endif %}
    {% do return(
        '(select *, ' ~ missing | join(', ') ~ ' from ' ~ pinned ~ ')' if missing else pinned
    ) %}
{% endmacro %}
