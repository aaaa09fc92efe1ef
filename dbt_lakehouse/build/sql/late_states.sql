{% import 'parts.sql' as parts %}
{#
  Whether a state may have an event that is older than what is known of its key (fold.Newest).

  Arguments:
      newest: the newest that is known, or none; none too of a log that its source orders, where
          a later log time says nothing.
      horizon: up to when remembered states were forgotten, as text, or none.
      truncates: the relation of the truncates of a log of several source tables, if there are any:
          which rows one takes away is a matter of where they are from.
#}
{% if not newest %}
true
{%- else %}
{{ '(' if truncates }}not coalesce(
    unix_micros(_first_position.log_time)
    {{ '> ' ~ newest.log_time if newest.log_time is not none else 'is not null' }}
    {% if newest.time is not none %}
    and _null_position is null
    and unix_micros(_first_time) >= {{ newest.time }}
    {% endif %}
    {% if horizon %}
    and not {{ parts.is_behind(horizon, '_first_position', '_first_time') | indent }}
    {% endif %},
    false
)
{%- if truncates %}
 or _first_position < (select max(_position) from {{ truncates }}))
{%- endif %}
{%- endif %}
