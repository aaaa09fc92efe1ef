"""The decoders of the lake's change logs, for whoever queries the lake.

A run registers a function for each change log that it builds (``payload_functions``), made from the
log's declaration. Here a session that only reads gets the same ones, made from the declarations
with which the logs were last built.
"""

from typing import NamedTuple

from pyspark.sql import SparkSession

from dbt_lakehouse.declared import declarations
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.avro_schemas import kept_schemas
from dbt_lakehouse.runs.inventory import Kind, LakeTable
from dbt_lakehouse.runs.tables import look_at, tables_in
from dbt_lakehouse.spark.functions import register_decoder
from dbt_lakehouse.spark.payload_functions import register_log_events
from dbt_lakehouse.telling import tell
from python_udfs.core.events import Source
from python_udfs.typed.declared import Log


class LogDecoder(NamedTuple):
    """The decoder of a change log, ``decode_<log>``."""

    name: str
    log: Log
    sources: frozenset[Source] | None
    """The source tables whose events it gives; None for any."""


def decoder_of(table: LakeTable) -> LogDecoder | None:
    """The decoder of a table, by the declaration that it was last built with; None if the table is
    no change log.
    """
    if table.kind is not Kind.LOG:
        return None
    log = table.declared
    return LogDecoder(
        declarations.decoder_name(table.name.rpartition(".")[2]),
        declarations.rows_of(log, texts=declarations.texts_to_choose_by(log)),
        declarations.sources_of(log),
    )


def register_decoders(spark: SparkSession, schema: str) -> list[str]:
    """Register ``decode_<log>(format, key, value)`` for each change log in a schema, and give
    ``decode_payload`` the registry schemas that the lake keeps. For a log with header columns, the
    headers are the fourth argument. Returns the names of the functions.

    A log that hashes values has none where the mask key is missing: that is told.
    """
    schemas = kept_schemas(spark)
    register_decoder(spark, schemas)
    names: list[str] = []
    for table in tables_in(spark, schema):
        name = f"{schema}.{table}"
        found = look_at(spark, name)
        decoder = None if found is None else decoder_of(LakeTable(name, found))
        if decoder is None or decoder.name in names:
            continue
        try:
            register_log_events(spark, *decoder, schemas)
        except ConfigurationError as error:
            tell(f"{decoder.name} is not there: {error}")
            continue
        names.append(decoder.name)
    return names
