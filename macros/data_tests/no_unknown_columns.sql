{#
  The events of a typed change log carry no field that the log does not declare: a column that is
  new at the source fails this test, one row for each, with the types of its values (as Spark's
  VARIANT tells them) and the position of its first event. Nothing of it is lost: it is in
  bronze, and `lakehouse generate --topic ...` adds it to the models.

  It reads the images of the table's events, and takes apart only those that have such a field.
  Where a column has the whole image nothing is unknown.
#}
{% test no_unknown_columns(model) %}
{{- config(severity='warn', tags=['nightly']) -}}
{%- if execute -%}
{%- set log = adapter.log_to_test(model, 'no_unknown_columns') -%}
{%- set events = dbt.events_to_test(model, log) -%}
{%- set fields = [] -%}
{#- `$partial` says that an image is not whole. -#}
{%- for field in log.fields + ['$partial'] -%}
    {%- do fields.append(dbt.sql_text(field)) -%}
{%- endfor -%}
{%- set fields = 'array(' ~ fields | join(', ') ~ ')' -%}
with images as (
    select {{ dbt.event_position('events') }} as position, image
    from {{ events }} as events
    lateral view explode(array(before, after)) as image
    where
        operation <> 'truncate'
),

unknown as (
    select position, image
    from images
    where
        size(array_except(json_object_keys(image), {{ fields }})) > 0
        {%- if '$' in log.fields %}
        and false
        {%- endif %}
)

select
    field.key as column,
    schema_of_variant_agg(field.value) as observed_type,
    min(position) as first_position
from unknown, lateral variant_explode(try_parse_json(image)) as field
where not array_contains({{ fields }}, field.key)
group by field.key
{%- endif -%}
{% endtest %}
