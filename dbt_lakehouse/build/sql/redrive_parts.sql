{# Parts of statements for payloads that are decoded again. #}

{# Whether two rows have the same error of a payload that can't be decoded. #}
{% macro same_error(one, other) %}
{{ other }}.operation = 'invalid'
{%- for column in ['format', 'error_code', 'error_detail'] %}
 and {{ one }}.{{ column }} <=> {{ other }}.{{ column }}
{%- endfor %}
{%- endmacro %}

{# Whether a column has one of some values; without any, it always holds. #}
{% macro is_one_of(column, values) %}
{{ column ~ ' in (' ~ values | map('literal') | join(', ') ~ ')' if values else 'true' }}
{%- endmacro %}
