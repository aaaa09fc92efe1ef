"""Limits that every decoder enforces before a payload can exhaust memory or the stack."""

# Deepest nesting of arrays and objects in a payload, the outermost container counted as 1. Far
# below the recursion limits of CPython (1,000 frames) and of Spark's JSON parser (1,000 levels),
# far above what databases produce.
MAX_DEPTH = 256

# Kafka brokers are rarely set above 10 MB a message; a larger payload is a mistake, not a record.
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024

# The memory for one payload beside its own values as they were shipped (paths in metadata, the
# digits of decimals, events that report errors): this many bytes for each of its bytes, plus this
# many for any payload. See ``budget``. With the values themselves, decoding stays below 40 times
# the payload plus 64 MiB. An event with its sentence takes some 600 bytes, a path in metadata
# some 130: a list of twenty-byte blobs, each with its path, needs six times its bytes.
BUDGET_FACTOR = 8
BUDGET_BYTES = 8 * 1024 * 1024
