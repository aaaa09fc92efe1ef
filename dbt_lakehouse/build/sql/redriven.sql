{#
  The result, for the session that asked for it.

  Arguments:
      outcome: the row of redrive_outcome.
#}
create or replace global temporary view redriven as
select
    {{ outcome.payloads }} as payloads,
    {{ outcome.decoded }} as decoded,
    {{ outcome.events }} as events
