{# Parts of statements for payloads that are decoded again. #}

{# Whether two rows have the same error of a payload that can't be decoded. #}
{% macro same_error(one, other) %}
{{ other }}.operation = 'invalid'
and {{ one }}.format <=> {{ other }}.format
and {{ one }}.error_code <=> {{ other }}.error_code
and {{ one }}.error_detail <=> {{ other }}.error_detail
{%- endmacro %}

{# Whether a column has one of some values; without any, it always holds. #}
{% macro is_one_of(column, values) %}
{{ column ~ ' in (' ~ values | map('literal') | join(', ') ~ ')' if values else 'true' }}
{%- endmacro %}
