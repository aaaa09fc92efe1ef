"""Pipelines as one would write them in PySpark without this project: what it is compared with.

Each has the layers that the project has: bronze, a typed change log, and the current state as gold,
kept by MERGE. They take what is new in bronze by Iceberg's incremental read between snapshots, and
write the snapshot that they have read into the summary of their own commit: each row is processed
once, also after a crash.

    watermarks            what has been read, kept with what was written
    merging               the last change of each key into gold
    debezium_from_json    Debezium envelopes through Spark's from_json
    aerospike_udf         Aerospike MessagePack through a Python function
"""
