{#
  Every value of a typed change log fits its declared type: none was turned into null. And every
  change but a truncate has its key, without which it is in no gold table.

  Arguments:
      key: the key columns.
#}
{% test no_misfits(model, key) %}
select _position, misfit.column, misfit.text
from {{ model }}
lateral view explode(
    _misfits
    || case
        when _operation <> 'truncate' and ({{ quoted(key) | join(' is null or ') }} is null)
            then array(named_struct('column', {{ sql_text(key | join(", ")) }}, 'text', 'no key'))
        else array()
    end
) as misfit
{% endtest %}
