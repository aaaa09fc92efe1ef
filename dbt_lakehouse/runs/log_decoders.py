"""The decoders of the lake's change logs, for whoever queries the lake.

A run registers a function for each change log that it builds (``payload_functions``), made from the
log's declaration. Here a session that only reads gets the same ones, made from the declarations
with which the logs were last built.
"""

from pyspark.sql import SparkSession

from dbt_lakehouse.declared import declarations
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.avro_schemas import kept_schemas
from dbt_lakehouse.runs.inventory import Kind, LakeTable
from dbt_lakehouse.runs.tables import look_at, tables_in
from dbt_lakehouse.spark.functions import register_decoder
from dbt_lakehouse.spark.payload_functions import register_log_events
from dbt_lakehouse.telling import tell


def register_decoders(spark: SparkSession, schema: str) -> list[str]:
    """Register ``decode_<log>(format, key, value)`` for each change log in a schema, and give
    ``decode_payload`` the registry schemas that the lake keeps. For a log with header columns, the
    headers are the fourth argument. Returns the names of the functions.

    A log that hashes values has none where the mask key is missing: that is told.
    """
    schemas = kept_schemas(spark)
    register_decoder(spark, schemas)
    names = []
    for table in tables_in(spark, schema):
        found = look_at(spark, f"{schema}.{table}")
        if found is None:
            continue
        of_lake = LakeTable(f"{schema}.{table}", found)
        name = declarations.decoder_name(table)
        if of_lake.kind is not Kind.LOG or name in names:
            continue
        log = of_lake.declared
        try:
            declared = declarations.rows_of(log, texts=declarations.texts_to_choose_by(log))
            register_log_events(spark, name, declared, declarations.sources_of(log), schemas)
        except ConfigurationError as error:
            tell(f"{name} is not there: {error}")
            continue
        names.append(name)
    return names
