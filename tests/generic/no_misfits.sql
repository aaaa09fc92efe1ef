{# Every value of a typed change log fits its declared type: none was turned into null. #}
{% test no_misfits(model) %}
select _position, misfit.column, misfit.text
from {{ model }}
lateral view explode(_misfits) as misfit
{% endtest %}
