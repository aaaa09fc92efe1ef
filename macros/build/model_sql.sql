{#
  The SQL of a model of ours (MODELS in dbt_lakehouse/build/kinds.py): what is compiled of it, be it
  to show it or for a unit test, is what runs.

  Arguments:
      name: the model's.
      reads: the relations that it reads, by the names that its SQL has for them.
#}
{% macro model_sql(name, reads) %}
    {% set is_building = dbt.is_building() %}
    {% do return(adapter.model_sql(
        name,
        this,
        reads,
        var('topics', none),
        is_building=is_building,
        is_decoding=dbt.is_decoding(),
        goes_on=not is_building and dbt.goes_on(),
        anew=is_building and should_full_refresh()
    )) %}
{% endmacro %}
