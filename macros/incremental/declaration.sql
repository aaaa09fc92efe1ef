{#
  What a change log or a gold model declares: its columns, and all else that its rows depend on. The
  table keeps it in its property `lakehouse.declared`.
#}
{% macro declaration() %}
    {% set meta = model.config.meta or {} %}
    {% for kind in ['change_log', 'fold', 'history', 'rows'] if kind in meta %}
        {% do return(tojson({'kind': kind, 'of': meta[kind]}, sort_keys=true)) %}
    {% endfor %}
{% endmacro %}

{#
  Whether the running model's table can be brought up to what the model declares now without being
  built anew: at most there are more columns, or columns of a change log with a wider type.

  Arguments:
      properties: those of the table.
#}
{% macro declaration_can_be_followed(properties) %}
    {% set held = properties.get('lakehouse.declared', declaration()) %}
    {% if held == declaration() %}
        {% do return(true) %}
    {% endif %}
    {% set old, new = fromjson(held, {}), fromjson(declaration()) %}
    {% if old.get('kind') != new.kind or new.kind == 'rows' %}
        {% do return(false) %}
    {% endif %}
    {% set changed = [] %}
    {% for name, value in new.of.items()
        if name not in ['columns', 'fields'] and old.of.get(name) != value %}
        {% do changed.append(name) %}
    {% endfor %}
    {% set specs = {} %}
    {% for spec in new.of.columns if new.kind == 'change_log' %}
        {% do specs.update({spec.column: spec}) %}
    {% endfor %}
    {% for column in old.of.columns %}
        {% if new.kind == 'change_log' %}
            {% set spec = specs.get(column.column) %}
            {% if not spec or dict(column, type=spec.type) != spec
                or (column.type != spec.type and not is_widening(column.type, spec.type)) %}
                {% do changed.append(column.column) %}
            {% endif %}
        {% elif column not in new.of.columns %}
            {% do changed.append(column) %}
        {% endif %}
    {% endfor %}
    {% do return(changed | length == 0) %}
{% endmacro %}

{#
  Whether the running model declares something else than when its table was last brought up to date.
#}
{% macro has_new_declaration() %}
    {% do return(_properties(this).get('lakehouse.declared', declaration()) != declaration()) %}
{% endmacro %}
