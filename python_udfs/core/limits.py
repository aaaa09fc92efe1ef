"""Limits that every decoder enforces before a payload can exhaust memory or the stack."""

# Deepest nesting of arrays and objects in a payload, the outermost container counted as 1. Far
# below the recursion limits of CPython (1,000 frames) and of Spark's JSON parser (1,000 levels),
# far above what databases produce.
MAX_DEPTH = 256

# Kafka brokers are rarely set above 10 MB a message; a larger payload is a mistake, not a record.
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024

# Elements of one payload that can't be decoded, each an event of some 600 bytes: what follows is
# not read. Far above what a broken producer batches; a payload of nothing else has millions.
MAX_ERRORS = 100_000
