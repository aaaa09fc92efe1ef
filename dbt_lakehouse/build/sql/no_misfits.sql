{#
  The values of a change log that don't fit their declared types, and the changes without a key,
  which are missing in gold. Truncates, which never have a key, are left out.

  Arguments:
      rows: the rows to examine.
      key: the key columns, quoted; empty for a table without a key.
      named: their names, as a test reports them.
#}
select _position, misfit.column, misfit.text
from {{ rows }}
lateral view explode(
    _misfits
    {% if key %}
    || case
        when _operation <> 'truncate' and ({{ key | join(' is null or ') }} is null)
            then array(
                named_struct('column', {{ named | literal }}, 'text', 'no key')
            )
        else array()
    end
    {% endif %}
) as misfit
