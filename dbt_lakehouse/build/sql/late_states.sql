{#
  Whether a state may have an event that is older than the known state of its key (fold.Newest).

  Arguments:
      newest: the newest known place and time.
      horizon: the purge horizon, as text, or none.
      truncates: the relation of the truncates of a log of several source tables, if there are any:
          the rows that one deletes depend on their source table.
#}
{{ '(' if truncates }}not coalesce(
    unix_micros(_lh_first_position.log_time)
    {{ '> ' ~ newest.log_time if newest.log_time is not none else 'is not null' }}
    {% if newest.time is not none %}
    and _lh_null_position is null
    and unix_micros(_lh_first_time) >= {{ newest.time }}
    {% endif %}
    {% if horizon %}
    and not {{ parts.is_behind(horizon, '_lh_first_position', '_lh_first_time') | indent }}
    {% endif %},
    false
)
{%- if truncates %}
 or _lh_first_position < (select max(_position) from {{ truncates }}))
{%- endif %}
