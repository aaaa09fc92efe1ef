{#
  The meta of the model that a relation is of: what macros like change_log and
  current_state keep there.
#}
{% macro model_meta(relation) %}
    {% set nodes = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model')
        | selectattr('alias', 'equalto', relation.identifier)
        | selectattr('schema', 'equalto', relation.schema) | list %}
    {% do return(nodes[0].config.meta) %}
{% endmacro %}
