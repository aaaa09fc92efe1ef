{#
  The relations of a schema, as dbt-spark's adapter wants them: rows of (schema, name, is
  temporary, information). dbt-spark asks with `show table extended`, which Iceberg's catalogs
  don't support, and its fallback misses views: a relation that dbt doesn't see is rebuilt at each
  run without a word.
#}
{% macro spark__list_relations_without_caching(relation) %}
    {% set relations = [] %}
    {% for kind, provider in [
        ('tables', 'Type: TABLE\nProvider: iceberg'), ('views', 'Type: VIEW')
    ] %}
        {% for row in run_query('show ' ~ kind ~ ' in ' ~ relation.schema) %}
            {# `show` lists the session's temporary views too: they have no schema #}
            {% if row[0] == relation.schema %}
                {% do relations.append([row[0], row[1], false, provider]) %}
            {% endif %}
        {% endfor %}
    {% endfor %}
    {% do return(relations) %}
{% endmacro %}
