{# Each row of a gold table has its whole key, and no two have the same. #}
{% test unique_key(model) %}
{{- config(tags=['nightly']) -}}
{%- if execute -%}
{%- set fold = adapter.fold_to_test(model, 'unique_key') -%}
{%- set key = fold.key -%}
select {{ key | join(', ') }}, count(*) as copies
from {{ dbt.rows_of_keys(model, dbt.touched_keys(model, fold), key) }}
group by {{ key | join(', ') }}
having
    count(*) > 1
    {%- for column in key %}
    or {{ column }} is null
    {%- endfor %}
{%- endif -%}
{% endtest %}
