{#
  Decode quarantined payloads again, with today's decoders and today's `vars.topics`.
  `lakehouse redrive` runs it (dbt_lakehouse/build/redrive.py).

  Arguments:
      codes, topics: only payloads with one of these error codes, of these topics;
          an empty list takes all.
#}
{% macro redrive(codes=[], topics=[]) %}
    {% do adapter.redrive(
        ref('other_events'), ref('quarantined_payloads'), source('bronze', 'raw_payloads'),
        codes, topics
    ) %}
{% endmacro %}
