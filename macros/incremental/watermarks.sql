{#
  What an incremental table has read, kept with the table: its properties

      lakehouse.table_id                        which build of the table this is; a rebuild gives a new one
      lakehouse.read.<schema>.<upstream>        table_id|snapshot|sequence number of the upstream, as last read
      lakehouse.written                         the table's own sequence number after its last complete run

  Rows are committed first and the marks after. A crash between the two repeats a read; the rows it had written are
  those with a sequence number above `lakehouse.written`, and each strategy writes them a second time to no effect.
  Properties of the table itself, and no table of watermarks: models that run at once never write to the same place.
#}

{# Properties of a relation as a dict. #}
{% macro _properties(relation) %}
    {% set properties = {} %}
    {% for row in run_query('show tblproperties ' ~ relation) %}
        {% do properties.update({row[0]: row[1]}) %}
    {% endfor %}
    {% do return(properties) %}
{% endmacro %}

{#
  Identity, current snapshot and its sequence number of a table; an empty table has snapshot 'none' and number 0.

  Arguments:
      known: a mark; if it is of the current snapshot, its number spares the query for it.
#}
{% macro _table_state(relation, known=none) %}
    {% set properties = _properties(relation) %}
    {% set table_id = properties.get('lakehouse.table_id', 'none') %}
    {% set snapshot = properties['current-snapshot-id'] %}
    {% if snapshot == 'none' %}
        {% set sequence = 0 %}
    {% elif known and known.snapshot == snapshot %}
        {% set sequence = known.sequence %}
    {% else %}
        {% set sequence = run_query(
            'select max(latest_sequence_number) from ' ~ relation ~ '.metadata_log_entries'
            ~ ' where latest_snapshot_id = ' ~ snapshot
        )[0][0] %}
    {% endif %}
    {% do return({'table_id': table_id, 'snapshot': snapshot, 'sequence': sequence}) %}
{% endmacro %}

{# The marks that the model `this` has on its upstreams: {upstream name: {table_id, snapshot, sequence}}. #}
{% macro _marks(properties=none) %}
    {% set marks = {} %}
    {% for name, value in (properties or _properties(this)).items() if name.startswith('lakehouse.read.') %}
        {% set parts = value.split('|') %}
        {% do marks.update({
            name[15:]: {'table_id': parts[0], 'snapshot': parts[1], 'sequence': parts[2] | int}
        }) %}
    {% endfor %}
    {% do return(marks) %}
{% endmacro %}

{#
  Notes what the running model reads of an upstream, for the properties to be written when its rows are. The session's
  configuration is what a model's compilation and its materialization share.
#}
{% macro _note_read(relation, state) %}
    {% set mark = state.table_id ~ '|' ~ state.snapshot ~ '|' ~ state.sequence %}
    {% do run_query('set lakehouse.reading.' ~ this.schema ~ '.' ~ this.identifier ~ '.' ~ relation.schema
        ~ '.' ~ relation.identifier ~ ' = ' ~ mark) %}
{% endmacro %}

{# The properties to write for what the running model has noted. #}
{% macro _read_marks() %}
    {% set marks = {} %}
    {% set prefix = 'lakehouse.reading.' ~ this.schema ~ '.' ~ this.identifier ~ '.' %}
    {% for unique_id in model.depends_on.nodes %}
        {% set node = graph.nodes.get(unique_id) or graph.sources.get(unique_id) %}
        {% set upstream = node.schema ~ '.' ~ (node.get('alias') or node.get('identifier')) %}
        {% set value = run_query('set ' ~ prefix ~ upstream)[0][1] %}
        {% if value != '<undefined>' %}
            {% do marks.update({'lakehouse.read.' ~ upstream: value}) %}
        {% endif %}
    {% endfor %}
    {% do return(marks) %}
{% endmacro %}

{#
  Whether what the running model has noted differs from what it read last.

  Arguments:
      relation: an upstream, or none for any.
#}
{% macro has_news(relation=none) %}
    {% set properties = _properties(this) %}
    {% set news = [] %}
    {% for name, mark in _read_marks().items() if properties.get(name) != mark %}
        {% if not relation or name == 'lakehouse.read.' ~ relation.schema ~ '.' ~ relation.identifier %}
            {% do news.append(name) %}
        {% endif %}
    {% endfor %}
    {% do return(news | length > 0) %}
{% endmacro %}

{#
  Ends a run: writes the marks and the table's own sequence number.

  Arguments:
      more: further properties to write with them.
#}
{% macro save_watermarks(more={}) %}
    {% set properties = dict(_read_marks(), **noted_log_times()) %}
    {% do properties.update(more) %}
    {% do properties.update({'lakehouse.written': _table_state(this).sequence}) %}
    {% if declaration() %}
        {% do properties.update({'lakehouse.declared': declaration(), 'lakehouse.to_fill': '{}'}) %}
    {% endif %}
    {% do set_properties(this, properties) %}
{% endmacro %}

{# Sets properties of a table in one commit. #}
{% macro set_properties(relation, properties) %}
    {% set assignments = [] %}
    {% for name, value in properties.items() %}
        {% do assignments.append(sql_text(name) ~ ' = ' ~ sql_text(value)) %}
    {% endfor %}
    {% do run_query('alter table ' ~ relation ~ ' set tblproperties (' ~ assignments | join(', ') ~ ')') %}
{% endmacro %}
