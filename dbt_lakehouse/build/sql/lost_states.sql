{#
  The number of states of absent keys whose events are neither in the log nor in the table of
  deletes without a set.

  Arguments:
      table, log: the gold table and its log.
      key: the columns of the key.
      deleted_keys: the table of remembered states, read under `scope`.
      by_source: whether the log is ordered by its source.
      deletes: the table of deletes without a set, or none.
#}
select count(*)
from (
    select newest.topic, newest.partition, newest.offset
    from (
        select
            record_key,
            max({{ parts.position('remembered', by_source) | indent(12) }}) as newest
        from {{ deleted_keys }} as remembered
        where scope = {{ scope | literal }}
        group by record_key
    )
    -- One that lives again is remembered no longer.
    left anti join (
        select {{ parts.record_key(key) | indent(8) }} as record_key
        from {{ table }}
    ) using (record_key)
)
left anti join (
    select _position.topic, _position.partition, _position.offset from {{ log }}
    {% if deletes %}
    union all
    select _position.topic, _position.partition, _position.offset from {{ deletes }}
    {% endif %}
) using (topic, partition, offset)
