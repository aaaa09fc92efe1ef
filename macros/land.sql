{#
  Lands what is new in vars.captures and in Kafka at the start of `dbt run` and `dbt build`, and of
  no other command; it is the hook `on-run-start` in dbt_project.yml. Bronze is shared by all
  targets, so it is the one whose schema is `gold` that lands, by its vars.
#}
{% macro land() %}
    {% if execute %}
        {% for sentence in adapter.land() %}
            {{ log(sentence, info=true) }}
        {% endfor %}
    {% endif %}
{% endmacro %}

{#
  Keeps what the report of the run needs of dbt's results, and ends a command with an error if there
  are Kafka topics that it could not land, after all that has landed was built; it is the hook
  `on-run-end` in dbt_project.yml.
#}
{% macro end_landing() %}
    {% if execute %}
        {% do adapter.end_landing(results) %}
    {% endif %}
{% endmacro %}
