{#
  No row of a gold table has expired by the moment it was built for, and none belongs to a key that
  is remembered as absent since a later event.
#}
{% test no_absent_keys(model) %}
{{- config(tags=['nightly']) -}}
{%- if execute -%}
{%- set fold = adapter.fold_to_test(model, 'no_absent_keys') -%}
{%- set deleted_keys = adapter.relation_of('deleted_keys') -%}
with gold as (
    select *, {{ dbt.record_key(fold.key) }} as _record_key
    from {{ dbt.rows_of_keys(model, dbt.touched_keys(model, fold), fold.key) }}
)

select gold._record_key, 'remembered as deleted or expired' as reason
from gold
inner join {{ deleted_keys }} as deleted_keys on gold._record_key = deleted_keys.record_key
where deleted_keys.scope = {{ dbt.table_scope(model) }} and deleted_keys.position > gold._position
{%- if fold.namespace %}
union all
select _record_key, 'expired'
from (select *, {{ dbt.record_key(fold.key) }} as _record_key from {{ model }})
where _expires_at <= timestamp '{{ dbt.built_as_of(model) }}'
{%- endif %}
{%- endif -%}
{% endtest %}
