{#
  The numbers that did not fit, by column and by the kind of type that holds them (Kind in
  dbt_lakehouse/declared/widening.py). A number with an exponent counts as its digits, if the
  exponent is small.

  Arguments:
      rows: the rows of the log, to select from.
#}
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
            when text rlike '^[+-]?[0-9]+([.][0-9]*)?$' then translate(text, '+-', '')
            when text rlike '^[+-]?[0-9]+([.][0-9]*)?[eE][+-]?[0-9]{1,2}$'
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
