{#
  The keys of whose events the log has values of columns that the running model's table
  does not have yet.

  Arguments:
      log: the change log, as SQL of a relation.
      to_fill: the columns, as follow_schema returns them.
#}
{% macro keys_to_fill(fold, log, to_fill) -%}
select {{ fold.key | join(', ') }}
from {{ log }} as changes
where {{ is_to_be_filled(to_fill, 'changes') }}
{%- endmacro %}
