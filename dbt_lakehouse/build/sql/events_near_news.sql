{#
  The earlier events of the log that may lie behind a new event of the keys to place, in the log or
  by time; truncates among them apply to any key. In a namespace also the deletes without a set, and
  versions that expired behind a new event: it would have ended them.

  Arguments:
      fold: the Fold, of the keys alone.
      before: the rows of the log that were read before, to select from.
      deletes: for a namespace, those of the deletes without a set, else none.
      own: for a namespace, the history as it is now, to select from.
      judged: the relation of judged_news.sql.
      log_time, time: the first place and time of the new events, as SQL.
      day_before: 24 hours before that time.
#}
{% macro near(relation) %}
(
    select *
    from {{ relation }}
    {# Plain columns only, so that statistics skip the files of earlier events. An event whose time
       is missing, or invalid because its clock is ahead, counts as of its log time. #}
    where
        _position.log_time is null
        or _position.log_time >= {{ log_time }}
        or _occurred_at >= {{ time }}
        or (_occurred_at is null and _position.log_time >= {{ time }})
        or (_kafka_timestamp < {{ day_before }} and _position.log_time >= {{ time }})
)
{%- endmacro %}
{% set unknown = '(select * from ' ~ judged ~ ' where _lh_unknown)' %}
select 1 as found
from ({{ event_parts.log_events(fold, near(before)) | indent }})
left semi join {{ unknown }} using ({{ fold.key_list }})
union all
{% if fold.namespace %}
select 1
from ({{ event_parts.set_less_deletes(fold, near(deletes)) | indent }})
left semi join {{ unknown }} using ({{ fold.key_list }})
union all
select 1
from {{ own }}
inner join {{ unknown }} as unknown using ({{ fold.key_list }})
where valid_to >= {{ time }} and valid_to >= _lh_first_time
{% else %}
select 1
from {{ near(before) }} as changes
where {{ fold.key[0] }} is null and _operation = 'truncate'
{% endif %}
