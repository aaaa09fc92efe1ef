{#
  The newest truncates of a run, one per source table: those among rows of a log, and remembered
  ones. For a log of several source tables, also the earliest new one of each: a later one spares
  a row that belongs to another table by then, but that row may rest on rows that the earliest one
  deleted.

  Arguments:
      fold: the Fold.
      log: the rows of the log, to select from.
      remembered: `deleted_keys` as it is to be read, or none for a rebuild.
      scope: the scope of the table's truncates there.
#}
with found as (
    select
        _position,
        _lh_time,
        {{ 'to_json(_source)' if fold.several_sources else "''" }} as _source,
        true as _lh_is_new
    from ({{ event_parts.truncates(fold, log) | indent }})
    {% if remembered %}
    union all
    select
        {{ parts.position('remembered', fold.order_by) | indent(8) }},
        max_occurred_at,
        record_key,
        false
    from {{ remembered }} as remembered
    where scope = {{ scope | literal }}
    {% endif %}
),

chosen as (
    select
        _source,
        max_by(struct(_position, _lh_time, _lh_is_new), struct(_position, _lh_is_new)) as chosen
    from found
    group by _source
    {% if remembered and fold.several_sources %}
    union
    select _source, min_by(struct(_position, _lh_time, _lh_is_new), _position)
    from found
    where _lh_is_new
    group by _source
    {% endif %}
)

select
    _source as source,
    struct(
        {{ 'chosen._position.source as source,' if fold.order_by }}
        chosen._position.topic as topic,
        chosen._position.partition as partition,
        chosen._position.offset as offset,
        chosen._position.event_index as event_index
    ) as position,
    unix_micros(chosen._position.log_time) as log_time,
    unix_micros(chosen._lh_time) as time,
    chosen._lh_is_new as is_new
from chosen
