-- A payload that is bad never fails a test, a decoder that is bad always does.
select
    topic,
    partition,
    offset,
    event_index,
    format,
    error_detail
from {{ ref("other_events") }}
where error_code = 'decoder_failed'
