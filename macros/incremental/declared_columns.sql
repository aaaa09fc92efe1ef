{# A fingerprint of what a change log or gold model declares, from its meta; none for other models. #}
{% macro declared_columns() %}
    {% set meta = model.config.meta or {} %}
    {% set declared = meta.get('change_log', meta.get('fold')) %}
    {% do return(local_md5(tojson(declared, sort_keys=true)) if declared) %}
{% endmacro %}
