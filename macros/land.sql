{#
  Land new messages from vars.captures and Kafka at the start of `dbt run` and `dbt build`, and of
  no other command; it is the hook `on-run-start` in dbt_project.yml. All targets share bronze, so
  only the target whose schema is `gold` lands, by its vars.
#}
{% macro land() %}
    {% for sentence in adapter.land() %}
        {{ log(sentence, info=true) }}
    {% endfor %}
{% endmacro %}

{#
  Save the part of dbt's results that the run's report needs. If some Kafka topics could not be
  landed, end the command with an error after all landed messages were built. It is the hook
  `on-run-end` in dbt_project.yml.
#}
{% macro end_landing() %}
    {% do execute and adapter.end_landing(results) %}
{% endmacro %}
