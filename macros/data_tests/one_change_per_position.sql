{#
  A change log has each change once, and only operations that change rows in its source.

  Arguments:
      operations: those that there can be; by default, what the log's declaration says of its
          source.
#}
{% test one_change_per_position(model, operations=none) %}
{{- config(tags=['nightly']) -}}
{%- if execute -%}
{%- set operations = operations or (
    ['upsert', 'delete'] if adapter.log_to_test(model, 'one_change_per_position').namespace
    else ['snapshot', 'insert', 'update', 'upsert', 'delete', 'truncate']
) -%}
{%- set added = adapter.added_rows(model) -%}
select _position, count(*) as copies, collect_set(_operation) as operations
from {{ model }}
{%- if added %}
where {{ dbt.is_near_positions('(select _position.* from ' ~ added ~ ')', '_position.') }}
{%- endif %}
group by _position
having
    _position is null
    or count(*) > 1
    or count_if(_operation in ('{{ operations | join("', '") }}')) < count(*)
{%- endif -%}
{% endtest %}
