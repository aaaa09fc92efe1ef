{# Whether what is compiled is run, and not of a unit test, whose payloads no other query finds. #}
{% macro is_decoding() %}
    {% set is_unit_test = model is defined and model.resource_type == 'unit_test' %}
    {% do return(
        execute
        and flags.WHICH not in ['compile', 'generate', 'list', 'parse']
        and not is_unit_test
    ) %}
{% endmacro %}
