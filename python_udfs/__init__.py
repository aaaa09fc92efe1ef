"""Decoders of change-event payloads: pure functions of bytes, without Spark.

registry    the wire formats, each ``decode(key, value) -> list[Event]``, and the SQL functions
images      what change logs read out of row images core/       the common parts of decoders: the
uniform event, the error family, limits, paths text/       readers of JSON, MessagePack and Avro;
they know no vendor aerospike/  Aerospike's MessagePack, JSON and Avro debezium/   Debezium's
envelope and its dialects: Debezium, Arcion, Lindorm binlog/     Canal and Maxwell; other formats
are modules beside it typed/      the columns of change logs, by their declared types
"""
