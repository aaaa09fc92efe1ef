{# Refuse grants: Spark has no statement for them, so they must not seem to be in effect. #}
{% macro lakehouse__apply_grants(relation, grant_config, should_revoke=true) %}
    {% if grant_config %}
        {{ exceptions.raise_compiler_error(
            relation ~ ': the config `grants` can not be applied, for Spark grants nothing on'
            ~ ' Iceberg tables; take it out, and let the catalog, or the storage that the files'
            ~ ' are in, say who may read'
        ) }}
    {% endif %}
{% endmacro %}
