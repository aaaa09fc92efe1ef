{# How many payloads are tried and decoded, how many of their events are new, and how many rows. #}
select
    (select count(*) from redrive_payloads) as payloads,
    (
        select count(*) from (
            select 1 from redrive_events
            group by topic, partition, offset
            having count_if(operation = 'invalid') = 0
        )
    ) as decoded,
    (select count_if(operation <> 'invalid') from redrive_missing) as events,
    (select count(*) from redrive_missing) as rows
