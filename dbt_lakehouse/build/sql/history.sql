{#
  The versions of the keys of a log, of all or of some.

  A version begins at its event's source time; where the source gives none, at its log time, or at
  the next event's time if that is earlier. Versions follow each other in the order of the fold
  (fold.sql): by source time if the table is ordered by it, else as in the log; a time that
  decreases in that order counts as its predecessor's. Of versions that begin at the same instant,
  the last one remains. So a late event splits a version, and the current versions are the rows of
  the gold table.

  Arguments:
      fold: the Fold (dbt_lakehouse/declared/fold_of_log.py).
      log: the change log, to select from; it is read for truncates only.
      events: SQL of the events to fold, as of event_parts.all_events.
      as_of: the moment at which rows expire, as text.
#}
{% set up_to_now = 'over (partition by ' ~ fold.key_list ~ ' order by _lh_rank)' %}
{% set tracked = parts.exact_json('struct(' ~ (fold.track_columns or []) | join(', ') ~ ')') %}
with
{{ ordered_parts.ranked(fold, log, events) }},

begun as (
    select
        *,
        coalesce(
            _lh_guard_time,
            least(
                _position.log_time,
                -- Of the events behind, as those before in the other order: Spark computes a frame
                -- that has no end anew for every row.
                min(_lh_guard_time) over (
                    partition by {{ fold.key_list }}
                    order by _lh_rank desc
                    rows between unbounded preceding and 1 preceding
                )
            )
        ) as _lh_begin
    from ranked
),

{% if fold.ends_lives %}
lives as (
    select
        *,
        count_if(_lh_begins_life) {{ up_to_now }} as _lh_life
    from (
        select
            *,
            {{ parts.begins_life(fold.key, '_lh_rank') | indent(12) }} as _lh_begins_life
        from begun
    )
),

{% endif %}
states as (
    select
        {{ fold.key_list }},
        {% for column in fold.columns %}
        {% if fold.may_leave %}
        last(
            if(
                not {{ parts.is_unchanged(column) }},
                struct(if(_operation = 'delete', null, {{ column }}) as value),
                null
            ),
            true
        ) over (
            partition by {{ fold.key_list }}{{ ', _lh_life' if fold.ends_lives }}
            order by _lh_rank
        ).value as {{ column }},
        {% else %}
        {{ column }},
        {% endif %}
        {% endfor %}
        _operation,
        _occurred_at,
        _position,
        _expires_at,
        _lh_rank,
        max(_lh_begin) {{ up_to_now }} as valid_from
    from {{ 'lives' if fold.ends_lives else 'begun' }}
),

followed as (
    select
        *,
        lead(struct(valid_from)) over (
            partition by {{ fold.key_list }} order by _lh_rank
        ) as _lh_next
    from states
),

-- What is replaced at the instant that it begins was never valid.
lasting as (
    select
        * except (_lh_next),
        least(
            _lh_next.valid_from,
            -- What the next event finds expired has ended then, though its time may be ahead.
            if(_lh_next is not null or _expires_at <= timestamp '{{ as_of }}', _expires_at, null)
        ) as valid_to
    from followed
    where
        _operation <> 'delete'
        and (_lh_next is null or not valid_from <=> _lh_next.valid_from)
),

{% if fold.track_columns %}
compared as (
    select
        *,
        coalesce(
            lag(struct(valid_to, {{ tracked | indent(12) }} as text)) over (
                partition by {{ fold.key_list }}
                order by _lh_rank
            ) <> struct(valid_from as valid_to, {{ tracked | indent(12) }} as text),
            true
        ) as _lh_is_new
    from lasting
    where coalesce(valid_from < valid_to, true)
),

grouped as (
    select
        *,
        count_if(_lh_is_new) {{ up_to_now }} as _lh_version
    from compared
),

versions as (
    select
        {{ fold.key_list }},
        min_by(valid_from, _lh_rank) as valid_from,
        max_by(struct({{ fold.history_columns | join(', ') }}, valid_to), _lh_rank) as _lh_last
    from grouped
    group by {{ fold.key_list }}, _lh_version
),

final as (
    select
        {{ fold.key_list }},
        {{ fold.history_columns | each('_lh_last.{}') | lines | indent(8) }},
        valid_from,
        _lh_last.valid_to,
        _lh_last.valid_to is null as is_current
    from versions
)
{% else %}
final as (
    select
        {{ (fold.key + fold.history_columns) | join(', ') }},
        valid_from,
        valid_to,
        valid_to is null as is_current
    from lasting
    where coalesce(valid_from < valid_to, true)
)
{% endif %}

{% if fold.bitemporal %}
select
    *,
    timestamp '{{ as_of }}' as recorded_from,
    cast(null as timestamp) as recorded_to
from final
{% else %}
select * from final
{% endif %}
