{# The fold's arguments of a gold model, as macros/fold/current_state.sql keeps them. #}
{% macro fold_of(relation) %}
    {% set nodes = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model')
        | selectattr('alias', 'equalto', relation.identifier)
        | selectattr('schema', 'equalto', relation.schema) | list %}
    {% do return(nodes[0].config.meta.fold) %}
{% endmacro %}
