{# A change log has each change once, and only operations that change rows in its source. #}
{% test one_change_per_position(model) %}
{%- if execute -%}
{%- set operations = ['upsert', 'delete'] if '_digest' in model_meta(model).change_log.technical | join
    else ['snapshot', 'insert', 'update', 'delete', 'truncate'] -%}
select _position, count(*) as copies, collect_set(_operation) as operations
from {{ model }}
group by _position
having
    _position is null
    or count(*) > 1
    or count_if(_operation in ('{{ operations | join("', '") }}')) < count(*)
{%- endif -%}
{% endtest %}
