{#
  A MERGE that places log rows without a place in the source's order directly behind the last row
  before them in their partition that has one (its place and ' !'). It also corrects rows that were
  placed so before, because a row that came late may lie between.

  Arguments:
      table: the log.
      own: the same as it is now, to select from.
      key: the key columns, if rows continue from the previous row of their key; else none.
#}
{% set group = ['topic', 'partition'] + key %}
{% macro says_none(source) %}coalesce({{ source }} like '% !', true){% endmacro %}
merge into {{ table }} as target
using (
    with placeless as (
        select distinct
            {{ (['_position.topic', '_position.partition'] + key) | join(', ') }}
        from {{ own }}
        where {{ says_none('_position.source') }}
    ),

    places as (
        select
            {{ (['_position.*'] + key) | join(', ') }}
        from {{ own }}
    ),

    followed as (
        select
            *,
            last_value(if({{ says_none('source') }}, null, source), true) over (
                partition by {{ group | join(', ') }}
                order by offset, event_index
                rows between unbounded preceding and 1 preceding
            ) || ' !' as placed
        from places
        left semi join placeless using ({{ group | join(', ') }})
    )

    select * from followed
    where {{ says_none('source') }} and not source <=> placed and placed is not null
) as source
on
    target._position.topic = source.topic
    and target._position.partition = source.partition
    and target._position.offset = source.offset
    and target._position.event_index = source.event_index
when matched then update set
    _position = named_struct(
        'source', source.placed,
        'log_time', target._position.log_time,
        'topic', source.topic,
        'partition', source.partition,
        'offset', source.offset,
        'event_index', source.event_index
    )
