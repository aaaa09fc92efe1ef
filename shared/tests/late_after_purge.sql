{{ config(severity="warn") }}

-- Of each gold table's newest run: changes from before what deleted_keys remembers. They are folded
-- with their key's log, which must reach back for that; a longer vars.tombstone_retention_days
-- spares the question.
with newest as (
    select
        gold_table,
        max(as_of) as as_of,
        max_by(late_after_purge, as_of) as late_after_purge
    from {{ ref("fold_counters") }}
    group by gold_table
)

select * from newest
where late_after_purge > 0
