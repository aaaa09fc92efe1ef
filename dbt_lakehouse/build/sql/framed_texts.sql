{#
  The keys and values that may name registry schemas, as the column `text`.

  Arguments:
      payloads: a relation with key, value, headers and format.
#}
select explode(
    array(key, value) || if({{ payload_parts.names_other_key() | indent }}, headers.value, array())
)
    as text
from {{ payloads }}
where format in ({{ avro_formats }})
