{#
  What was done, for the session that has asked.

  Arguments:
      outcome: the row of redrive_outcome.
#}
create or replace global temporary view redriven as
select
    {{ outcome.payloads }} as payloads,
    {{ outcome.decoded }} as decoded,
    {{ outcome.events }} as events
