{#
  dbt's question with two more conditions: the command runs models (so `dbt show` and the docs show a model's whole
  result), and every upstream is still the table that was read last. When one has been rebuilt, its old rows are in
  this table and its new ones look new, so this table is rebuilt too. So is a change log or a gold table whose model
  declares other columns or events than the table was made of, unless they are only more columns, or wider: those are
  filled in.
#}
{% macro is_incremental() %}
    {% if not is_building() %}
        {% do return(false) %}
    {% endif %}
    {% set relation = load_relation(this) %}
    {% if relation is none or not relation.is_table or should_full_refresh() %}
        {% do return(false) %}
    {% endif %}
    {% set properties = _properties(this) %}
    {% set marks = _marks(properties) %}
    {% if not declaration_can_be_followed(properties) %}
        {% do log(this ~ ': its model declares other columns, or other events, than it was made of, so it is rebuilt', info=true) %}
        {% do return(false) %}
    {% endif %}
    {% for upstream, mark in marks.items() %}
        {% set schema, identifier = upstream.split('.') %}
        {% set look = _look_if_there(this.incorporate(path={'schema': schema, 'identifier': identifier})) %}
        {% if look is none or look.properties.get('lakehouse.table_id', 'none') != mark.table_id %}
            {% do log(this ~ ': ' ~ upstream ~ ' was rebuilt, so this table is rebuilt too', info=true) %}
            {% do return(false) %}
        {% endif %}
    {% endfor %}
    {% do return(marks | length > 0 or model.depends_on.nodes | length == 0) %}
{% endmacro %}

{# Whether models are being run, not only compiled. #}
{% macro is_building() %}
    {% do return(execute and flags.WHICH in ['run', 'build', 'retry']) %}
{% endmacro %}
