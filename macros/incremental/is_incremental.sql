{#
  dbt's question with two more conditions: the command runs models (so `dbt show` and the docs show
  a model's whole result), and every upstream is still the table that was read last. When one has
  been rebuilt, its old rows are in this table and its new ones look new, so this table is rebuilt
  too. So is a change log or a gold table whose model declares other columns or events than the
  table was made of, unless they are only more columns, or wider: those are filled in.
#}
{% macro is_incremental() %}
    {% if not _can_go_on() or _reason_to_rebuild() %}
        {% do return(false) %}
    {% endif %}
    {% do return(_marks() | length > 0 or model.depends_on.nodes | length == 0) %}
{% endmacro %}

{# Whether there is a table that the running model may add to. #}
{% macro _can_go_on() %}
    {% if not is_building() %}
        {% do return(false) %}
    {% endif %}
    {% set relation = load_relation(this) %}
    {% do return(relation is not none and relation.is_table and not should_full_refresh()) %}
{% endmacro %}

{# Why the model's table has to be made anew, as the user reads it; none if it has not. #}
{% macro _reason_to_rebuild() %}
    {% set properties = _properties(this) %}
    {% if not declaration_can_be_followed(properties) %}
        {% do return(
            'its model declares other columns, or other events, than it was made of, so it is'
            ~ ' rebuilt'
        ) %}
    {% endif %}
    {% for upstream, mark in _marks(properties).items() %}
        {% set schema, identifier = upstream.split('.') %}
        {% set look = _look_if_there(
            this.incorporate(path={'schema': schema, 'identifier': identifier})
        ) %}
        {% if look is none or look.properties.get('lakehouse.table_id', 'none') != mark.table_id %}
            {% do return(upstream ~ ' was rebuilt, so this table is rebuilt too') %}
        {% endif %}
    {% endfor %}
    {% do return(none) %}
{% endmacro %}

{# Whether models are being run, not only compiled. #}
{% macro is_building() %}
    {% do return(execute and flags.WHICH in ['run', 'build', 'retry']) %}
{% endmacro %}
