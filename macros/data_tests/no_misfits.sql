{#
  Every value of a typed change log fits its declared type: none was turned into null. And every
  change but a truncate has its key, without which it is in no gold table. It warns: a bad value or
  a row without a key is reported, and must not keep good rows from gold.
#}
{% test no_misfits(model) %}
{{- config(severity='warn', tags=['nightly']) -}}
{%- if execute -%}
{%- set log = adapter.log_to_test(model, 'no_misfits') -%}
{%- set key = log.key or ['_digest'] -%}
select _position, misfit.column, misfit.text
from {{ dbt.added_rows(model) }}
lateral view explode(
    {%- if log.keyless %}
    _misfits
    {%- else %}
    _misfits
    || case
        when _operation <> 'truncate' and ({{ dbt.quoted(key) | join(' is null or ') }} is null)
            then array(
                named_struct('column', {{ dbt.sql_text(key | join(", ")) }}, 'text', 'no key')
            )
        else array()
    end
    {%- endif %}
) as misfit
{%- endif -%}
{% endtest %}
