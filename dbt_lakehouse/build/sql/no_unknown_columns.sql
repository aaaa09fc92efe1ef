{#
  The fields of a change log's events that the log does not declare, with the types of their values
  (as Spark's VARIANT reports them) and the position of the first event with each. Only images with
  such a field are parsed.

  Arguments:
      events: the events to examine.
      fields: the declared fields.
      has_whole_image: whether a column has the whole image; then no field is unknown.
#}
{% set known %}array({{ fields | map('literal') | join(', ') }}){% endset %}
with images as (
    select {{ payload_parts.event_position('events') | indent(4) }} as position, image
    from {{ events }} as events
    lateral view explode(array(before, after)) as image
    where
        operation <> 'truncate'
),

unknown as (
    select position, image
    from images
    where
        size(array_except(json_object_keys(image), {{ known }})) > 0
        {{ 'and false' if has_whole_image }}
)

select
    field.key as column,
    schema_of_variant_agg(field.value) as observed_type,
    min(position) as first_position
from unknown, lateral variant_explode(try_parse_json(image)) as field
where not array_contains({{ known }}, field.key)
group by field.key
