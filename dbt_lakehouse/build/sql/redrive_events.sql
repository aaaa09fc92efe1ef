{#
  The events that the payloads decode to today, with their log times.

  Arguments:
      decoded: their events, to select from.
#}
select decoded.*, redrive_payloads.log_time
from {{ decoded | indent }} as decoded
inner join redrive_payloads using (topic, partition, offset)
