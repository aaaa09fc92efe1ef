"""The decoders as functions of queries without Spark: ``decode_payload(format, key, value)``, and
``decode_<log>(format, key, value)`` for each change log. They give what they give in Spark's SQL,
and get no headers.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa

from dbt_lakehouse.extras import require
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.schemas import know_kept_schemas

_NAME: Final = re.compile(r"\bdecode_\w+", re.IGNORECASE)
_ARGUMENTS: Final = (pa.string(), pa.binary(), pa.binary())


class _Function(NamedTuple):
    name: str
    decode: Callable[..., pa.Array]
    returns: pa.DataType


def add_decoders(reader: Reader, sql: str) -> None:
    """Give a reader the decoders that a query may name. Raises ``ConfigurationError`` if one of a
    log that hashes values is named, and the mask key is missing.
    """
    wanted = {name.lower() for name in _NAME.findall(sql)} - reader.functions
    if not wanted:
        return
    for each in _functions(reader, wanted):
        if each.name not in reader.functions:
            reader.add_function(each.name, _of_duckdb(each.decode), _ARGUMENTS, each.returns)


def _functions(reader: Reader, wanted: set[str]) -> Iterator[_Function]:
    # Imported here: most queries need no decoders, which come with dbt and PySpark.
    require("lake")
    know_kept_schemas(reader)
    from dbt_lakehouse.declared.declarations import decoder_name
    from dbt_lakehouse.runs.inventory import LakeTable
    from dbt_lakehouse.runs.log_decoders import decoder_of
    from dbt_lakehouse.spark.event_arrays import EVENT
    from dbt_lakehouse.spark.functions import decode_payload_batch, with_mask_key
    from dbt_lakehouse.spark.payload_functions import log_events_batch, log_type

    if "decode_payload" in wanted:
        yield _Function("decode_payload", decode_payload_batch, pa.list_(EVENT))
    for name in reader.logs_first():
        if decoder_name(name.rpartition(".")[2]).lower() not in wanted:
            continue
        found = decoder_of(LakeTable(name, reader.look_at(name)))
        if found is not None:
            decode = with_mask_key(found.log, partial(log_events_batch, found.log, found.sources))
            yield _Function(found.name.lower(), decode, pa.list_(log_type(found.log)))


def _of_duckdb(decode: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    """A decoder for the arrays that DuckDB gives, which counts its parameters."""

    def function(
        formats: pa.ChunkedArray, keys: pa.ChunkedArray, values: pa.ChunkedArray
    ) -> pa.Array:
        given = zip((formats, keys, values), _ARGUMENTS, strict=True)
        return decode(*(pa.concat_arrays(each.cast(type).chunks) for each, type in given))

    return function
