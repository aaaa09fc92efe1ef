{# Each row of a gold table has its whole key, and no two have the same. #}
{% test unique_key(model) %}
{%- if execute -%}
{%- set key = adapter.fold_of_model(model).key -%}
select {{ key | join(', ') }}, count(*) as copies
from {{ model }}
group by {{ key | join(', ') }}
having
    count(*) > 1
    {%- for column in key %}
    or {{ column }} is null
    {%- endfor %}
{%- endif -%}
{% endtest %}
