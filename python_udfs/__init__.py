"""Decoders of change-event payloads: pure functions of bytes, without Spark.

One module per wire format, each with ``decode(key, value) -> list[Event]``; ``events`` holds what
they share in their results, ``errors`` the one error family, ``registry`` the list of formats and
of SQL functions.
"""
