{#
  What an incremental table has read, kept with the table: its properties

      lakehouse.table_id                      which build of the table this is; a rebuild gives
                                              a new one
      lakehouse.read.<schema>.<upstream>      table_id|snapshot|sequence number of the upstream,
                                              as last read
      lakehouse.written                       the table's own sequence number after its last
                                              complete run
      lakehouse.as_of                         as of when expired rows were judged last
                                              (build_current_state.sql)
      lakehouse.newest                        of gold: the newest times of all that is known
                                              (newest_known.sql)
      lakehouse.declared, lakehouse.to_fill   the columns it was made of, and those to be filled
                                              (declaration.sql)
      lakehouse.shape                         of a table that others write: what it is made of
                                              (materialization.sql)
      lakehouse.log_times                     of change_events: its partitions' last log times
                                              (log_times.sql)
      lakehouse.purge_horizon                 of deleted_keys: up to when states are forgotten
                                              (purge_deleted_keys.sql)

  Rows are committed first and the marks after. A crash between the two repeats a read; the rows it
  had written are those with a sequence number above `lakehouse.written`, and each strategy writes
  them a second time to no effect. Properties of the table itself, and no table of watermarks:
  models that run at once never write to the same place.
#}

{#
  A table as it is, with its properties, its current snapshot and its columns' descriptions, as
  adapter.look_at_table gives them. One node looks at a table once, and anew after each statement of
  its own that may have written something.
#}
{% macro _look(relation) %}
    {% set look = _look_if_there(relation) %}
    {% if look is none %}
        {% do exceptions.raise_compiler_error(
            relation ~ ' is not there: build it first, `dbt run -s +' ~ relation.identifier ~ '`'
        ) %}
    {% endif %}
    {% do return(look) %}
{% endmacro %}

{# The same, or none if there is no such table. #}
{% macro _look_if_there(relation) %}
    {% do return(adapter.look_at_table(relation)) %}
{% endmacro %}

{# Properties of a table as a dict. #}
{% macro _properties(relation) %}
    {% do return(_look(relation).properties) %}
{% endmacro %}

{#
  Identity, current snapshot and its sequence number of a table; an empty table has snapshot 'none'
  and number 0.
#}
{% macro _table_state(relation) %}
    {% set look = _look(relation) %}
    {% do return({
        'table_id': look.properties.get('lakehouse.table_id', 'none'),
        'snapshot': look.snapshot, 'sequence': look.sequence
    }) %}
{% endmacro %}

{#
  The marks that the model `this` has on its upstreams:
  {upstream name: {table_id, snapshot, sequence}}.
#}
{% macro _marks(properties=none) %}
    {% set marks = {} %}
    {% for name, value in (properties or _properties(this)).items()
        if name.startswith('lakehouse.read.') %}
        {% set parts = value.split('|') %}
        {% do marks.update({
            name[15:]: {'table_id': parts[0], 'snapshot': parts[1], 'sequence': parts[2] | int}
        }) %}
    {% endfor %}
    {% do return(marks) %}
{% endmacro %}

{#
  Notes what the running model reads of an upstream, for the properties to be written
  when its rows are.
#}
{% macro _note_read(relation, state) %}
    {% do adapter.noted_properties(this).update({
        'lakehouse.read.' ~ relation.schema ~ '.' ~ relation.identifier:
            state.table_id ~ '|' ~ state.snapshot ~ '|' ~ state.sequence
    }) %}
{% endmacro %}

{# The properties that the running model has noted, to be written with its rows. #}
{% macro _noted_properties() %}
    {% do return(adapter.noted_properties(this)) %}
{% endmacro %}

{#
  Whether what the running model has noted differs from what it read last.

  Arguments:
      relation: an upstream, or none for any.
#}
{% macro has_news(relation=none) %}
    {% set properties = _properties(this) %}
    {% set news = [] %}
    {% for name, mark in _noted_properties().items()
        if name.startswith('lakehouse.read.') and properties.get(name) != mark %}
        {% if not relation
            or name == 'lakehouse.read.' ~ relation.schema ~ '.' ~ relation.identifier %}
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
    {% set properties = dict(_noted_properties(), **more) %}
    {% do properties.update({'lakehouse.written': _table_state(this).sequence}) %}
    {% if declaration() %}
        {% do properties.update({'lakehouse.declared': declaration(), 'lakehouse.to_fill': '{}'}) %}
    {% endif %}
    {% do set_properties(this, properties) %}
{% endmacro %}

{# Sets properties of a table in one commit. #}
{% macro set_properties(relation, properties) %}
    {% do adapter.set_table_properties(relation, properties) %}
{% endmacro %}
