{#
  Lets the columns of the running change log follow values that have outgrown their types, where its
  declaration says so (follow="widening"): numbers among the misfits of the rows that nobody has
  looked at yet widen the columns in place, and then stand in them.

  Arguments:
      log: the declaration, with the types that its columns have had so far.
      upstreams: the relations that it reads.
#}
{% macro follow_widening(log, upstreams) %}
    {% set rows = adapter.misfits_to_follow(this, log) %}
    {% if not rows %}
        {% do return(none) %}
    {% endif %}
    {% set wider = adapter.follow(this, log, dbt.outgrown_numbers_sql(rows)) %}
    {% if wider != log %}
        {# It finds the log declared anew; after a break-off the next run does. No full refresh: if
            this is one, the rows are there by now. #}
        {% set run = adapter.begin_run(
            this, upstreams, wider, false, false, false, wider.sources, true
        ) %}
        {% if not run.is_incremental %}
            {% do return(none) %}
        {% endif %}
        {% do adapter.follow_schema(
            this,
            dbt.change_log_sql(
                wider, '(select * from ' ~ dbt.log_events(run, wider) ~ ' where false)'
            )
        ) %}
        {% do dbt.fill_change_log(run, wider) %}
        {% do adapter.note(this) %}
    {% endif %}
    {% do adapter.has_followed(this) %}
{% endmacro %}

{#
  The numbers that did not fit, by column and by what holds them (dbt_lakehouse/dbt/widening.py,
  Kind). A number with an exponent counts as its digits, if it is not far.

  Arguments:
      rows: the rows of the log, to select from.
#}
{% macro outgrown_numbers_sql(rows) -%}
{%- set plain, far = '^[+-]?[0-9]+([.][0-9]*)?$', '^[+-]?[0-9]+([.][0-9]*)?[eE][+-]?[0-9]{1,2}$' -%}
with misfits as (
    select misfit.column, misfit.text
    from {{ rows }}
    lateral view explode(_misfits) as misfit
),

numbers as (
    select
        column,
        text,
        case
            when text rlike '{{ plain }}' then translate(text, '+-', '')
            when text rlike '{{ far }}'
                then cast(abs(try_cast(text as decimal(38,18))) as string)
        end as digits
    from misfits
)

select
    column,
    length(trim(leading '0' from substring_index(digits, '.', 1))) as whole,
    if(
        contains(digits, '.'), length(trim(trailing '0' from substring_index(digits, '.', -1))), 0
    ) as fraction,
    is_value(text, 'bigint') as is_bigint,
    is_value(text, 'double') as is_double
from numbers
where digits is not null
group by all
{%- endmacro %}
