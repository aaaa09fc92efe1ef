{#
  Lands what is new in vars.captures and in Kafka at the start of `dbt run` and `dbt build`, and of
  no other command; it is the hook `on-run-start` in dbt_project.yml.
#}
{% macro land() %}
    {% if execute %}
        {% for sentence in adapter.land() %}
            {% do log(sentence, info=true) %}
        {% endfor %}
    {% endif %}
{% endmacro %}
