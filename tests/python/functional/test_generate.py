"""`lakehouse generate`: captures that nobody wrote a model for, landed, generated, built and read.

One lake and one copy of the project serve all tests that build, for a dbt command costs seconds.
What gold should hold is written down beside each message, and not computed by the project.
"""

import json
import re
import shutil
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml
from support import avro_messages
from support.aerospike_encoder import Ext, Map, pack
from support.lakes import Lake, copy_project

from dbt_lakehouse.cli import lakehouse as command_line
from dbt_lakehouse.commands.generate import documents, edit, models, naming, scan, sources, types
from dbt_lakehouse.commands.generate.choices import GivenKeys, keys_in
from dbt_lakehouse.commands.generate.generate_output import GenerateError, Outcome, Report
from dbt_lakehouse.commands.generate.generated_models import Options, generate
from dbt_lakehouse.commands.generate.profile import Position, TableId, TopicProfile
from dbt_lakehouse.commands.generate.project_files import ProjectFiles
from dbt_lakehouse.commands.generate.schema_blocks import Declared, Holds, block_of, declared_type
from dbt_lakehouse.commands.generate.types import column_type, observed_type
from dbt_lakehouse.commands.generate.values import Values
from dbt_lakehouse.commands.generate.writer import Writer
from dbt_lakehouse.commands.why.events import keyed_table
from dbt_lakehouse.commands.why.explained_row import why
from dbt_lakehouse.commands.why.why_output import Reason
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.config.topics import Formats
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.lake import avro_schemas
from dbt_lakehouse.session.dbt_commands import read_manifest
from python_udfs.debezium.avro import Registered

AS_OF: Final = "2026-11-21 00:00:00"
NOW_MS: Final = 1_790_000_000_000
Line = dict[str, Any]
Row = dict[str, Any]


# --- Messages -------------------------------------------------------------------------------------


def b64(value: bytes) -> str:
    return b64encode(value).decode()


class Capture:
    """The lines of a topic, one partition, offsets and times counting up."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._offset = 0

    @property
    def lines(self) -> int:
        """How many there are."""
        return self._offset

    def raw(self, key: bytes | None, value: bytes | None) -> Line:
        self._offset += 1
        return {
            "topic": self.topic,
            "partition": 0,
            "offset": self._offset,
            "timestamp_ms": NOW_MS + self._offset * 1000,
            "key_b64": None if key is None else b64(key),
            "value_b64": None if value is None else b64(value),
        }

    def json(self, key: Any, value: Any) -> Line:
        return self.raw(None if key is None else dumps(key), dumps(value))


def dumps(value: Any) -> bytes:
    return msgspec.json.encode(value)


def source(table: str, **more: Any) -> dict[str, Any]:
    return {"connector": "postgresql", "db": "shop", "schema": "public", "table": table, **more}


def change(op: str, table: Mapping[str, Any], before: Row | None, after: Row | None) -> Row:
    """A Debezium envelope without a schema."""
    return {"op": op, "before": before, "after": after, "source": table, "ts_ms": NOW_MS}


def column(name: str, type_name: str, logical: str | None = None, **more: Any) -> Row:
    """A column of a schema block."""
    block = {"field": name, "type": type_name, "optional": True, **more}
    return {**block, "name": logical} if logical else block


def with_schema(columns: list[Row], payload: Row) -> Row:
    """An envelope with its schema block."""
    images = [
        {"type": "struct", "optional": True, "field": image, "fields": columns}
        for image in ("before", "after")
    ]
    fields = [*images, {"type": "string", "optional": False, "field": "op"}]
    return {
        "schema": {"type": "struct", "name": "v.Envelope", "fields": fields},
        "payload": payload,
    }


def key_of(columns: list[Row], payload: Row) -> Row:
    keys = [block for block in columns if block["field"] in payload]
    return {"schema": {"type": "struct", "name": "v.Key", "fields": keys}, "payload": payload}


def unscaled(number: str, scale: int) -> str:
    """A Decimal as Connect ships it."""
    with localcontext(prec=200 + abs(scale)):
        value = int(Decimal(number).scaleb(scale))
    return b64(value.to_bytes((value.bit_length() + 8) // 8, "big", signed=True))


def decimal_column(name: str, precision: int | None, scale: int) -> Row:
    parameters = {"scale": str(scale)}
    if precision is not None:
        parameters["connect.decimal.precision"] = str(precision)
    return column(name, "bytes", "org.apache.kafka.connect.data.Decimal", parameters=parameters)


# --- All types ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """A column with what is shipped for two rows, and what gold should have."""

    block: Row
    type: str
    shipped: tuple[Any, Any]
    expected: tuple[Any, Any]

    @property
    def name(self) -> str:
        return str(self.block["field"])


def sample(block: Row, type_name: str, *values: tuple[Any, Any]) -> Sample:
    (one, want_one), (two, want_two) = values
    return Sample(block, type_name, (one, two), (want_one, want_two))


def same(block: Row, type_name: str, one: Any, two: Any) -> Sample:
    return Sample(block, type_name, (one, two), (one, two))


def _declared_samples() -> list[Sample]:
    time, data, connect = "io.debezium.time", "io.debezium.data", "org.apache.kafka.connect.data"
    most = "9" * 38
    wide = "1" * 35 + "." + "2" * 30
    samples = [
        same(column("c_int8", "int8"), "int", -128, 127),
        same(column("c_int16", "int16"), "int", -32768, 32767),
        same(column("c_int32", "int32"), "int", -(2**31), 2**31 - 1),
        same(column("c_int64", "int64"), "bigint", -(2**63), 2**63 - 1),
        same(column("c_float32", "float32"), "double", 3.14, -0.1),
        same(column("c_float64", "float64"), "double", 5e-324, 1.7976931348623157e308),
        # As Java writes doubles and floats: not always as short as can be.
        sample(
            column("c_java", "float64"),
            "double",
            (msgspec.Raw("4.9E-324"), 5e-324),
            (msgspec.Raw("1.9999999999999998E23"), 2e23),
        ),
        sample(
            column("c_java32", "float32"),
            "double",
            (msgspec.Raw("1.17549435E-38"), 1.17549435e-38),
            (msgspec.Raw("3.4028235E38"), 3.4028235e38),
        ),
        sample(
            column("c_java_zero", "float64"),
            "double",
            (msgspec.Raw("-0.0"), -0.0),
            (msgspec.Raw("0.12345678901234567"), 0.12345678901234567),
        ),
        sample(column("c_nan", "double"), "double", ("Infinity", float("inf")), (0.5, 0.5)),
        same(column("c_boolean", "boolean"), "boolean", True, False),
        same(column("c_string", "string"), "string", "", "Łódź 😀 \\ \" ' \n\t{{ x }} {% y %}"),
        same(column("c_digits", "string"), "string", "007", "1e5"),
        same(column("c_null", "string"), "string", None, None),
        sample(column("c_bytes", "bytes"), "binary", (b64(b"\0\xff"), b"\0\xff"), ("", b"")),
        sample(column("c_bits", "bytes", f"{data}.Bits"), "binary", ("AQ==", b"\1"), (None, None)),
        sample(
            decimal_column("c_decimal", 10, 2),
            "decimal(10,2)",
            (unscaled("120.50", 2), Decimal("120.50")),
            (unscaled("-99999999.99", 2), Decimal("-99999999.99")),
        ),
        sample(
            decimal_column("c_decimal38", 38, 0),
            "decimal(38,0)",
            (unscaled(most, 0), Decimal(most)),
            (unscaled("-" + most, 0), Decimal("-" + most)),
        ),
        sample(
            decimal_column("c_decimal3838", 38, 38),
            "decimal(38,38)",
            (unscaled(f"0.{most}", 38), Decimal(f"0.{most}")),
            (unscaled(f"-0.{'0' * 37}1", 38), Decimal(f"-0.{'0' * 37}1")),
        ),
        sample(
            decimal_column("c_decimal65", 65, 30),
            "string",
            (unscaled(wide, 30), wide),
            (unscaled("0", 30), f"0.{'0' * 30}"),
        ),
        sample(
            decimal_column("c_decimal_unknown", None, 3),
            "decimal(38,3)",
            (unscaled("1.250", 3), Decimal("1.250")),
            (unscaled("0.001", 3), Decimal("0.001")),
        ),
        sample(
            decimal_column("c_decimal_rounded", 5, -2),
            "decimal(7,0)",
            (unscaled("1500", -2), Decimal(1500)),
            (unscaled("9999900", -2), Decimal(9999900)),
        ),
        # PostgreSQL's numeric(3,6) and numeric(5,-2), of which its connector ships so many zeros.
        sample(
            decimal_column("c_decimal_small", 3, 6),
            "decimal(6,6)",
            (unscaled("0.000999", 6), Decimal("0.000999")),
            (unscaled("-0.000001", 6), Decimal("-0.000001")),
        ),
        sample(
            decimal_column("c_decimal_2046", 5, 2046),
            "decimal(7,0)",
            (unscaled("1500", 2046), Decimal(1500)),
            (unscaled("-9999900", 2046), Decimal(-9999900)),
        ),
        # CockroachDB's.
        sample(
            column("c_number", "float64", "decimal", parameters={"precision": "10", "scale": "2"}),
            "decimal(10,2)",
            (msgspec.Raw("120.50"), Decimal("120.50")),
            (msgspec.Raw("-99999999.99"), Decimal("-99999999.99")),
        ),
        sample(
            column("c_variable", "struct", f"{data}.VariableScaleDecimal"),
            "string",
            ({"scale": 1, "value": unscaled("1.5", 1)}, "1.5"),
            ({"scale": 4, "value": unscaled("1.2500", 4)}, "1.2500"),
        ),
        sample(
            column("c_date", "int32", f"{time}.Date"),
            "date",
            (-719_162, date(1, 1, 1)),
            (2_932_896, date(9999, 12, 31)),
        ),
        sample(
            column("c_connect_date", "int32", f"{connect}.Date"),
            "date",
            (0, date(1970, 1, 1)),
            (20_778, date(2026, 11, 21)),
        ),
        sample(
            column("c_time", "int32", f"{time}.Time"),
            "string",
            (1, "00:00:00.001"),
            (86_399_999, "23:59:59.999"),
        ),
        sample(
            column("c_micro_time", "int64", f"{time}.MicroTime"),
            "string",
            (-3_020_399_000_000, "-838:59:59.000000"),
            (1, "00:00:00.000001"),
        ),
        sample(
            column("c_nano_time", "int64", f"{time}.NanoTime"),
            "string",
            (1, "00:00:00.000000001"),
            (None, None),
        ),
        sample(
            column("c_timestamp", "int64", f"{time}.Timestamp"),
            "timestamp_ntz",
            (1, datetime(1970, 1, 1, 0, 0, 0, 1000)),
            (-1, datetime(1969, 12, 31, 23, 59, 59, 999000)),
        ),
        sample(
            column("c_micro_timestamp", "int64", f"{time}.MicroTimestamp"),
            "timestamp_ntz",
            (1, datetime(1970, 1, 1, 0, 0, 0, 1)),
            (253_402_300_799_999_999, datetime(9999, 12, 31, 23, 59, 59, 999999)),
        ),
        sample(
            column("c_infinite", "int64", f"{time}.MicroTimestamp"),
            "string",
            (2**63 - 1, "infinity"),
            (0, "1970-01-01T00:00:00.000000"),
        ),
        sample(
            column("c_nano_timestamp", "int64", f"{time}.NanoTimestamp"),
            "string",
            (1, "1970-01-01T00:00:00.000000001"),
            (None, None),
        ),
        sample(
            column("c_zoned", "string", f"{time}.ZonedTimestamp"),
            "timestamp",
            ("2026-11-21T10:00:00.123456Z", datetime(2026, 11, 21, 10, 0, 0, 123456, UTC)),
            ("2026-11-21T10:00:00+02:00", datetime(2026, 11, 21, 8, 0, 0, 0, UTC)),
        ),
        sample(
            column("c_connect_timestamp", "int64", f"{connect}.Timestamp"),
            "timestamp",
            (1, datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)),
            (None, None),
        ),
        same(column("c_zoned_time", "string", f"{time}.ZonedTime"), "string", "10:00:00Z", None),
        same(column("c_year", "int32", f"{time}.Year"), "int", 2026, 1901),
        same(
            column("c_interval", "string", f"{time}.Interval"), "string", "P1Y2M3DT4H5M6.7S", None
        ),
        sample(
            column("c_duration", "int64", f"{time}.MicroDuration"),
            "string",
            (93_784_000_005, "PT26H3M4.000005S"),
            (None, None),
        ),
        same(column("c_enum", "string", f"{data}.Enum"), "string", "small", "2026-01-01"),
        same(column("c_set", "string", f"{data}.EnumSet"), "string", "a,b", ""),
        same(column("c_json", "string", f"{data}.Json"), "string", '{"a": 1.10}', "[]"),
        same(column("c_xml", "string", f"{data}.Xml"), "string", "<a/>", None),
        same(
            column("c_uuid", "string", f"{data}.Uuid"),
            "string",
            "b68a35a7-17ad-35b3-af2a-ae46edb4545a",
            None,
        ),
        same(column("c_ltree", "string", f"{data}.Ltree"), "string", "a.b", None),
        sample(
            column("c_point", "struct", f"{data}.geometry.Point"),
            "string",
            ({"x": 1.5, "y": -2, "wkb": "AQ==", "srid": None},) * 1
            + ('{"x":1.5,"y":-2,"wkb":"AQ==","srid":null}',),
            (None, None),
        ),
        same(
            column("c_ints", "array", items={"type": "int32", "optional": True}),
            "array<int>",
            [1, None, -3],
            [],
        ),
        same(
            column("c_texts", "array", items={"type": "string", "optional": True}),
            "array<string>",
            ["a", "", None],
            None,
        ),
        sample(
            column("c_dates", "array", items={"type": "int32", "name": f"{time}.Date"}),
            "array<date>",
            ([0, 1], [date(1970, 1, 1), date(1970, 1, 2)]),
            ([], []),
        ),
        sample(
            column(
                "c_map", "map", keys={"type": "string"}, values={"type": "string", "optional": True}
            ),
            "map<string,string>",
            ({"a": "1", "b": None}, {"a": "1", "b": None}),
            ({}, {}),
        ),
        sample(
            column("c_int_map", "map", keys={"type": "int32"}, values={"type": "string"}),
            "string",
            ([[1, "a"]], '[[1,"a"]]'),
            (None, None),
        ),
        sample(
            column(
                "c_structs", "array", items={"type": "struct", "fields": [column("a", "int32")]}
            ),
            "string",
            ([{"a": 1}], '[{"a":1}]'),
            (None, None),
        ),
        sample(
            column("c_iso_date", "string", f"{time}.IsoDate"),
            "date",
            ("2026-11-21Z", date(2026, 11, 21)),
            (None, None),
        ),
        sample(
            column("c_iso_timestamp", "string", f"{time}.IsoTimestamp"),
            "timestamp_ntz",
            ("2026-11-21T10:00:00.5Z", datetime(2026, 11, 21, 10, 0, 0, 500000)),
            (None, None),
        ),
    ]
    # Decimals of many shapes, until there are 77 beside the key.
    for number in range(77 - len(samples)):
        precision, scale = 3 + number, number
        digits = "9" * precision
        text = f"{digits[: precision - scale]}.{digits[:scale]}".rstrip(".")
        samples.append(
            sample(
                decimal_column(f"c_decimal_{precision}_{scale}", precision, scale),
                f"decimal({precision},{scale})",
                (unscaled(text, scale), Decimal(text)),
                (None, None),
            )
        )
    return samples


def _observed_samples() -> list[Sample]:
    """Columns that nobody declares, with what their values make of them."""
    values: list[tuple[str, str, tuple[Any, Any], tuple[Any, Any] | None]] = [
        ("int", "int", (-(2**31), 2**31 - 1), (-(2**31), 2**31 - 1)),
        ("bigint", "bigint", (1, 2**31), (1, 2**31)),
        ("least", "bigint", (-(2**63), 0), (-(2**63), 0)),
        ("huge", "decimal(19,0)", (2**63, 1), (Decimal(2**63), Decimal(1))),
        ("longest", "decimal(38,0)", (msgspec.Raw("9" * 38), 0), (Decimal("9" * 38), Decimal(0))),
        ("too_long", "string", (msgspec.Raw("9" * 39), 0), ("9" * 39, "0")),
        ("double", "double", (1.5, 2), (1.5, 2.0)),
        ("small", "double", (1e-300, 12345678.9), (1e-300, 12345678.9)),
        ("nan", "double", ("NaN", 1.25), (float("nan"), 1.25)),
        (
            "java",
            "double",
            (msgspec.Raw("4.9E-324"), msgspec.Raw("1.9999999999999998E23")),
            (5e-324, 2e23),
        ),
        ("price", "decimal(9,2)", (msgspec.Raw("120.50"), 3), (Decimal("120.50"), Decimal("3.00"))),
        (
            "exact",
            "decimal(38,20)",
            (msgspec.Raw("0.12345678901234567890"), None),
            (Decimal("0.12345678901234567890"), None),
        ),
        ("endless", "string", (msgspec.Raw("1." + "1" * 40), 2), ("1." + "1" * 40, "2")),
        ("boolean", "boolean", (True, False), (True, False)),
        ("flag_or_number", "string", (True, 1), ("true", "1")),
        ("text_or_number", "string", ("x", 1), ("x", "1")),
        ("empty", "string", (None, None), (None, None)),
        # Two values say little of a column of text: test_text_is_a_date_only_after_long.
        ("date", "string", ("2026-02-28", None), ("2026-02-28", None)),
        ("no_date", "string", ("2026-02-29", "2026-02-28"), ("2026-02-29", "2026-02-28")),
        ("date_or_text", "string", ("2026-02-28", "n/a"), ("2026-02-28", "n/a")),
        ("zip", "string", ("01234", "98765"), ("01234", "98765")),
        ("year_text", "string", ("2026", "2027"), ("2026", "2027")),
        ("local", "string", ("2026-11-21T10:00:00", None), ("2026-11-21T10:00:00", None)),
        ("instant", "string", ("2026-11-21T10:00:00Z", None), ("2026-11-21T10:00:00Z", None)),
        (
            "offset",
            "string",
            ("2026-11-21T10:00:00+02:00", None),
            ("2026-11-21T10:00:00+02:00", None),
        ),
        (
            "nanos",
            "string",
            ("2026-11-21T10:00:00.123456789Z", None),
            ("2026-11-21T10:00:00.123456789Z", None),
        ),
        ("year_10000", "string", ("+10000-01-01", None), ("+10000-01-01", None)),
        ("ints", "array<int>", ([1, None], []), ([1, None], [])),
        ("longs", "array<bigint>", ([2**40], None), ([2**40], None)),
        ("doubles", "array<double>", ([0.5, 1], None), ([0.5, 1.0], None)),
        ("texts", "array<string>", (["2026-01-01"], None), (["2026-01-01"], None)),
        ("flags", "array<boolean>", ([True], None), ([True], None)),
        ("mixed", "string", ([1, "1"], None), ('[1,"1"]', None)),
        ("nested", "string", ([[1]], []), ("[[1]]", "[]")),
        ("no_elements", "string", ([], None), ("[]", None)),
        ("map", "map<string,int>", ({"a": 1}, {}), ({"a": 1}, {})),
        ("text_map", "map<string,string>", ({"a": "x"}, None), ({"a": "x"}, None)),
        ("object", "string", ({"a": 1, "b": "x"}, None), ('{"a":1,"b":"x"}', None)),
        ("geometry", "string", ({"wkb": "AQ==", "srid": None}, None), None),
        ("scaled", "string", ({"scale": 2, "value": "AQ=="}, None), None),
        ("base64", "string", ("AQ==", "Ag=="), ("AQ==", "Ag==")),
        ("uuid", "string", ("b68a35a7-17ad-35b3-af2a-ae46edb4545a", None), None),
    ]
    samples = []
    for name, type_name, shipped, expected in values:
        if expected is None:
            one, two = shipped
            expected = (one if isinstance(one, str) else json.dumps(one).replace(" ", ""), two)
        samples.append(Sample({"field": name}, type_name, shipped, expected))
    return samples


DECLARED: Final = _declared_samples()
OBSERVED: Final = _observed_samples()


def all_types() -> list[Line]:
    """A table of 78 columns with schema blocks, two rows; and one of 43 without."""
    capture = Capture("types.with.schema")
    columns = [column("pk", "int32"), *(each.block for each in DECLARED)]
    lines = []
    for row in (0, 1):
        image = {"pk": row, **{each.name: each.shipped[row] for each in DECLARED}}
        payload = change("c", source("typed"), None, image)
        lines.append(capture.json(key_of(columns, {"pk": row}), with_schema(columns, payload)))
    bare = Capture("types.without.schema")
    for row in (0, 1):
        image = {"pk": row, **{each.name: each.shipped[row] for each in OBSERVED}}
        lines.append(bare.json({"pk": row}, change("c", source("untyped"), None, image)))
    return lines


# --- Tables with names ----------------------------------------------------------------------------

# The source's name, and the column's.
NAMES: Final = {
    "order": "order",
    "select": "select",
    "state": "state",
    "change": "change",
    "null": "null",
    "topic": "topic",
    "yes": "yes",
    "CustomerID": "CustomerID",
    "customerid": "customerid_2",
    "first name": "first_name",
    "first.name": "first_name_2",
    "größe": "größe",
    "名前": "名前",
    "1st": "c_1st",
    "_position": "source_position",
    "it's": "it_s",
    'a"b\\c': "a_b_c",
    "{{ x }}": "x",
    "`": "column",
}


# Whatever means something to YAML, Jinja, SQL, Spark, HTML, a terminal or a shell.
HOSTILE: Final = (
    'it\'s "x" `y` {{ x }} {% raw %} {# ${env:HOME} %s \\u0041\r\n\u2028\x1b[31m\0\u202e'
    " </script><b> -- */ *?[a]"
)


# Of 5,000 characters.
LONG: Final = "Long " * 1000

# Tables of such names, and what they are called in gold.
NAMED: Final = {
    HOSTILE: "shop_public_it_s_x_y_x_raw_env_home_s_u0041_31m_script_b_a",
    LONG: ("long_" * 20),
    "Cases": "shop_public_cases_9a73cbb5",
    "cases": "shop_public_cases_dbbfeb4c",
}


def hostile_names() -> list[Line]:
    """A topic, a table, a column and values of such a name, a key with it, and a header; the same
    of a long one, and of two that differ by a capital letter alone.
    """
    capture = Capture(HOSTILE)
    lines = []
    for name in NAMED:
        key = {f"key {name}": name}
        image = {**key, name: f"value of {name}"}
        line = capture.json(key, change("c", source(name), None, image))
        lines.append({**line, "headers": [[name, b64(name.encode())]]})
    return lines


def named_tables() -> list[Line]:
    """Tables of one topic: odd names, a key of two columns, nothing but keys, moved rows."""
    capture = Capture("shop.cdc")
    lines = []
    image = {"user": 1, **{name: f"value of {name}" for name in NAMES}}
    lines.append(capture.json({"user": 1}, change("c", source("order"), None, image)))
    lines.append(
        capture.json({"user": 2}, change("c", source("order"), None, {**image, "user": 2}))
    )
    lines.append(capture.json({"user": 2}, change("d", source("order"), {"user": 2}, None)))
    for order, line, tag in ((1, 1, "a"), (1, 2, "b"), (2, 1, "c")):
        row = {"order_id": order, "line_no": line, "tag": tag}
        key = {"line_no": line, "order_id": order}
        lines.append(capture.json(key, change("r", source("OrderLines"), None, row)))
    key = {"line_no": 2, "order_id": 1}
    lines.append(capture.json(key, change("d", source("OrderLines"), {**key, "tag": "b"}, None)))
    for left, right in ((1, 1), (1, 2), (2, 1)):
        link = {"left": left, "right": right}
        lines.append(capture.json(link, change("c", source("links"), None, link)))
    lines.append(capture.json({"left": 1, "right": 2}, change("d", source("links"), None, None)))
    # The same table in another database, with other columns.
    other = {**source("links"), "db": "archive"}
    lines.append(capture.json({"id": 7}, change("c", other, None, {"id": 7, "url": "x"})))
    # A message that is none, a heartbeat, a tombstone: no tables.
    lines.append(capture.raw(None, b"not json"))
    lines.append(capture.json(None, {"ts_ms": 1}))
    lines.append(capture.raw(dumps({"user": 2}), None))
    return lines


# --- Other writers --------------------------------------------------------------------------------


def arcion_line(capture: Capture, op: str, before: Row | None, after: Row | None) -> Line:
    columns = [
        column("code", "string"),
        column("pop", "int64"),
        decimal_column("area", 12, 2),
        column("since", "int32", "io.debezium.time.Date"),
    ]
    table = {"connector": "MYSQL", "db": "geo", "schema": None, "table": "country", "ts_ms": None}
    payload = {"op": op, "before": before, "after": after, "source": table, "ts_ms": None}
    return capture.raw(b'"default"', dumps(with_schema(columns, payload)))


def keyless_arcion() -> list[Line]:
    capture = Capture("arcion_geo")
    peru = {"code": "PE", "pop": "34000000", "area": "1285216.00", "since": "2026-01-31"}
    chad = {"code": "TD", "pop": "18000000", "area": "1284000.50", "since": "2026-02-01"}
    return [
        arcion_line(capture, "r", None, peru),
        arcion_line(capture, "c", {}, chad),
        arcion_line(capture, "u", peru, {**peru, "pop": "5000000000"}),
        arcion_line(capture, "d", chad, {}),
    ]


def lindorm() -> list[Line]:
    capture = Capture("lindorm_members")
    table = {"version": "v1.0", "db": "ld-1", "namespace": "default", "table": "members"}
    ana = {"id": "1004", "name": "Ana", "points": 12}

    def line(op: str, before: Row | None, after: Row | None) -> Line:
        payload = change(op, {**table, "ts_ms": NOW_MS}, before, after)
        return capture.json(None, {"schema": {}, "payload": payload})

    hbase = Capture("lindorm_hbase")

    def put(row: bytes, **cells: bytes) -> Line:
        after = {"ROW": b64(row), **{name: b64(value) for name, value in cells.items()}}
        payload = change("c", {**table, "table": "cells"}, None, after)
        return hbase.json(None, {"schema": {}, "payload": payload})

    return [
        line("c", None, ana),
        line("c", None, {"id": "1005", "name": "Bo", "points": None}),
        line("u", ana, {"id": "1004", "points": 13}),
        line("d", {"id": "1005"}, None),
        put(b"user1", f_name=b"lucky", f_age=b"\0\0\0\x32"),
        put("größe".encode(), f_name=b"", f_age=b"\0\0\0\x33"),
    ]


def aerospike() -> list[Line]:
    capture = Capture("aero.msgpack")

    def write(set_name: str | None, number: int, bins: list[Any], expiry: int = 0) -> Line:
        key = ["game", set_name, bytes([number]) * 20, None]
        return capture.raw(None, pack([1, 1, [key, 1, expiry, NOW_MS + number, bins]]))

    def delete(number: int) -> Line:
        key = ["game", None, bytes([number]) * 20, None]
        return capture.raw(None, pack([1, 2, [key, 0, 1, 0, NOW_MS + 999]]))

    lines = [
        write(
            "players",
            1,
            [
                ["name", 3, 0, "Ana"],
                ["score", 1, 0, 7],
                ["ratio", 2, 0, 0.5],
                ["alive", 17, 0, True],
                ["blob", 4, 0, b"\0\1"],
                ["tags", 20, 0, ["a", "b"]],
                ["levels", 19, 0, Map([("one", 1), ("two", 2**40)])],
                ["odd", 20, 0, [b"\1", "x"]],
                ["seen", 3, 0, "2026-01-01"],
                ["ext", 20, 0, [Ext(7, b"j")]],
                ["python", 9, 0, b"\2"],
            ],
        ),
        write(
            "players", 2, [["name", 3, 0, "Bo"], ["score", 1, 0, -(2**63)], ["ratio", 2, 0, 2.0]]
        ),
        write("players", 3, [["name", 3, 0, "gone"]]),
        delete(3),
        write(None, 4, [["any", 1, 0, 1]]),
        write("players", 5, [["name", 3, 0, "expired"]], expiry=1_700_000_000),
    ]
    texts = Capture("aero.json")
    key = ["iot", "sensors", b64(b"\7" * 20), None]
    record = {"msg": "write", "key": key, "gen": 1, "exp": 0, "lut": NOW_MS}
    bins = [
        {"name": "temp", "type": "float", "value": 21},
        {"name": "raw", "type": "blob", "value": "AAE="},
        {"name": "event-id", "type": "str", "value": "e1"},
        {"name": "count", "type": "int", "value": 3},
    ]
    lines.append(texts.json(None, {**record, "bins": bins}))
    flat = Capture("aero.flat")

    def flat_line(number: int, msg: str, bins: Row, set_name: str | None = "visits") -> Line:
        fields: Row = {"namespace": "web", "set": set_name, "digest": b64(bytes([number]) * 20)}
        metadata = {**fields, "msg": msg, "gen": 1, "lut": NOW_MS + flat.lines, "exp": 0}
        return flat.json(fields, {"metadata": metadata, **bins})

    return [
        *lines,
        flat_line(1, "write", {"page": "/", "hits": 1, "tags": ["a"], "ratio": 0.5}),
        flat_line(2, "write", {"page": "/gone", "hits": 2}),
        flat_line(3, "write", {"page": "/x", "hits": 3}),
        flat_line(1, "write", {"page": "/", "hits": 2**40, "tags": ["a", "b"]}),
        flat_line(2, "delete", {}),
        # Its server doesn't say the set.
        flat_line(3, "delete", {}, None),
    ]


_ABOUT: Final = [
    *({"name": name, "type": "string"} for name in ("namespace", "msg")),
    *({"name": name, "type": ["null", "string"]} for name in ("set", "userKey")),
    {"name": "digest", "type": "bytes"},
    {"name": "lut", "type": ["null", "long"]},
]
_BADGE: Final = {
    "name": ["null", "string"],
    "worn": ["null", "long"],
    "face": ["null", "bytes"],
    "any": ["null", "long", "string"],
    "notes": ["null", {"type": "map", "values": ["null", "long"]}],
}
AVRO: Final = {
    51: {
        "type": "record",
        "name": "Badge",
        "fields": [
            {"name": "metadata", "type": {"type": "record", "name": "About", "fields": _ABOUT}},
            *({"name": name, "type": kind} for name, kind in _BADGE.items()),
        ],
    },
    52: {"type": "record", "name": "Gone", "fields": _ABOUT},
}
"""Schemas of a registry, by their ids."""


def aerospike_in_avro() -> list[Line]:
    """Badges: one is deleted, one by a delete without a set."""
    capture = Capture("aero.avro")
    badge, gone = (avro_messages.Writer(number, schema) for number, schema in AVRO.items())

    def about(number: int, msg: str, set_name: str | None) -> Row:
        digest = bytes([number]) * 20
        time = {"lut": NOW_MS + capture.lines}
        return {"namespace": "club", "set": set_name, "digest": digest, "msg": msg, **time}

    def write(number: int, **bins: Any) -> Line:
        value = badge.write({"metadata": about(number, "write", "badges"), **bins})
        return capture.raw(None, value)

    def delete(number: int, set_name: str | None) -> Line:
        return capture.raw(None, gone.write(about(number, "delete", set_name)))

    return [
        write(1, name="Ana", worn=1, face=b"\0\1", any="x", notes={"7": 1, "x": None}),
        write(2, name="gone", worn=2),
        write(3, name="gone too", worn=3),
        write(1, name="Ana", worn=2**40, any="y"),
        write(4, name="Bo", face=b"", any="z"),
        delete(2, "badges"),
        delete(3, None),
    ]


def rows_without_envelope() -> list[Line]:
    """Maxwell's, Canal's, AWS DMS's, CockroachDB's, and those that Debezium's ExtractNewRecordState
    unwrapped.
    """
    maxwell = Capture("maxwell.shop")

    def row(kind: str, data: Row, key: int | None = None, **more: Any) -> Line:
        names = {"database": "mx", "table": "carts"}
        event_key = {**names, "pk.id": data.get("Id") if key is None else key}
        seconds = NOW_MS // 1000 + maxwell.lines
        return maxwell.json(
            event_key, {**names, "type": kind, "ts": seconds, "xid": 7, "data": data, **more}
        )

    lines = [
        row("insert", {"Id": 1, "total": 7.5, "at": "2026-01-01 00:00:00"}),
        row("insert", {"Id": 2, "total": 1, "at": None}),
        row("bootstrap-start", {}),
        row("bootstrap-insert", {"Id": 3, "total": 3, "at": None}),
        row("update", {"Id": 1, "total": 9.25, "at": None}, old={"total": 7.5}),
        row("update", {"Id": 4, "total": 3, "at": None}, old={"Id": 3}),
        row("delete", {"Id": 2, "total": 1, "at": None}),
        maxwell.json(None, {"type": "table-alter", "database": "mx", "table": "carts", "def": {}}),
    ]
    canal = Capture("canal.shop")

    def rows(kind: str, data: list[Row] | None, old: list[Row] | None = None, **more: Any) -> Line:
        types = {"id": "int(11)", "price": "decimal(10,2)", "name": "varchar(9)", "raw": "blob"}
        types["state"] = "enum('new','it''s done')"
        message: Row = {"database": "cn", "table": "wares", "type": kind, "isDdl": data is None}
        message |= {"data": data, "old": old, "mysqlType": types}
        message["sqlType"] = {"id": 4, "state": 4}
        return canal.json(None, message | {"pkNames": ["id"], "es": NOW_MS, "sql": ""} | more)

    lines += [
        rows("INSERT", [{"id": "9", "price": "1.00", "name": "old", "raw": None}]),
        rows("TRUNCATE", None),
        rows(
            "INSERT",
            [
                {"id": f"{n}", "price": f"{n}.50", "name": f"n{n}", "raw": "\x00\xff", "state": "2"}
                for n in range(1, 5)
            ],
        ),
        rows(
            "UPDATE",
            [
                {"id": "1", "price": "12345678.90", "name": "007", "raw": None, "state": "1"},
                {"id": "22", "price": "2.50", "name": "n2", "raw": None, "state": "0"},
            ],
            [{"price": "1.50", "name": "n1"}, {"id": "2"}],
        ),
        rows("DELETE", [{"id": "3", "price": "3.50", "name": "n3", "raw": None}]),
        rows("QUERY", None, sql="alter table wares comment 'x'"),
    ]
    lines += [*records_of_dms(), *changefeed()]
    rewritten = Capture("unwrapped.suppliers")

    def supplier(number: int, op: str, name: str | None) -> Line:
        added = {"__op": op, "__table": "suppliers", "__db": "inv", "__source_ts_ms": NOW_MS}
        deleted = "true" if op == "d" else "false"
        return rewritten.json(
            {"id": number}, {"id": number, "name": name, **added, "__deleted": deleted}
        )

    plain = Capture("unwrapped.notes")
    lines += [
        supplier(1, "r", "Ana"),
        supplier(2, "c", "gone"),
        supplier(1, "u", "Bo"),
        supplier(2, "d", None),
        rewritten.raw(dumps({"id": 2}), None),
        plain.json({"id": 1}, {"id": 1, "text": "a", "__op": "c", "__table": "notes"}),
        plain.json({"id": 2}, {"id": 2, "text": "gone", "__op": "c", "__table": "notes"}),
        plain.json({"id": 1}, {"id": 1, "text": "b", "__op": "u", "__table": "notes"}),
        plain.raw(dumps({"id": 2}), None),
        *rows_with_their_schema(),
    ]
    return lines


def records_of_dms() -> list[Line]:
    """Of a table that was loaded twice, with a truncate between; nulls are left out."""
    capture = Capture("dms.hr")

    def record(kind: str, operation: str, key: str, **parts: Row) -> Line:
        about = {"timestamp": "2026-01-31T10:00:01.000250Z", "record-type": kind}
        names = {"operation": operation, "schema-name": "hr", "table-name": "staff"}
        value = dumps({**parts, "metadata": {**about, **names}})
        return capture.raw(f"hr.staff.{key}".encode(), value)

    def row(operation: str, data: Row, **parts: Row) -> Line:
        return record("data", operation, f"{data['id']}", data=data, **parts)

    hired = {"hired": "2026-01-31T00:00:00Z"}
    definition = {"table-def": {"columns": {"id": {"type": "INT32"}}, "primary-key": ["id"]}}
    return [
        record("control", "create-table", "", control=definition),
        row("load", {"id": 9, "pay": 1.0}),
        record("control", "truncate-table", ""),
        *(row("load", {"id": number, "pay": 7.25, **hired}) for number in range(1, 4)),
        row("update", {"id": 1, "pay": 12345678.90}),
        row("update", {"id": 22, "pay": 7.25, **hired}, **{"before-image": {"id": 2}}),
        row("delete", {"id": 3}),
        row("insert", {"id": 4, "pay": 0}),
    ]


def changefeed() -> list[Line]:
    """Of a table whose key has two columns: what it ships after a pause, it has shipped before."""
    capture = Capture("roach.rides")

    def change(before: Row | None, after: Row | None) -> Line:
        row = after or before or {}
        time = f"{NOW_MS + capture.lines}000000.0000000000"
        value = {"after": after, "before": before, "updated": time}
        return capture.json([row["city"], row["n"]], value)

    def row(city: str, n: int, fare: str | None) -> Row:
        return {"city": city, "n": n, "fare": fare, "at": "2026-01-31T10:00:00.25"}

    rome, cheap, oslo = row("rome", 1, "7.50"), row("rome", 1, "2.50"), row("oslo", 1, None)
    return [
        change(None, rome),
        change(None, oslo),
        change(None, row("rome", 2, "gone")),
        change(rome, cheap),
        change(row("rome", 2, "gone"), None),
        capture.raw(None, b'{"resolved":"1701102296662969433.0000000000"}'),
        change(None, rome),
        change(rome, cheap),
        capture.json(["oslo", 9], {"after": None, "before": None}),
    ]


def rows_with_their_schema() -> list[Line]:
    """Unwrapped rows whose schema blocks say what no value does; one column has an image's name."""
    fields = [
        column("id", "int64"),
        column("tag", "string"),
        decimal_column("total", 20, 2),
        column("day", "int32", "io.debezium.time.Date"),
        {**column("after", "struct"), "fields": [column("ghost", "int32")]},
        column("__op", "string"),
    ]
    schema = {"type": "struct", "fields": fields, "name": "shop.tags.Value"}
    capture = Capture("unwrapped.tags")
    lines = []
    # The second is more than a double tells apart.
    for number, cents in ((1, 12345), (2, 1234567890123456789)):
        total = b64(cents.to_bytes(9, "big"))
        row = {"id": number, "tag": "x", "total": total, "day": 20_000, "after": {"ghost": 1}}
        lines.append(
            capture.json({"id": number}, {"schema": schema, "payload": {**row, "__op": "c"}})
        )
    return lines


def cell(value: Any, **more: Any) -> Row:
    return {"value": value, "set": True, **more}


def cells_with_numbers_as_keys() -> list[Line]:
    """A table of YugabyteDB whose key brings its scale."""
    scaled = "io.debezium.data.VariableScaleDecimal"
    number = [column("scale", "int32"), column("value", "bytes")]
    columns = [
        column(name, "struct", fields=[{**value, "field": "value"}, column("set", "boolean")])
        for name, value in (
            ("id", column("", "struct", scaled, fields=number)),
            ("a", column("", "int32")),
            ("b", column("", "string")),
        )
    ]
    capture = Capture("shop.cells")
    block = {"connector": "yugabytedb", "db": "y", "schema": "public", "table": "parts"}
    lines = []
    for op, (digits, scale), a, b in (
        ("c", ("10", 0), cell(2), cell("x")),
        ("c", ("2.5", 1), cell(2), None),
        ("c", ("3", 0), cell(1), cell("old")),
        ("u", ("10", -1), None, cell(None)),
        ("d", ("2.50", 2), None, None),
        ("d", ("3.0", 1), None, None),
        ("c", ("3.00", 2), None, cell("new")),
    ):
        key = {"id": cell({"scale": scale, "value": unscaled(digits, scale)})}
        images = (key | {"a": a, "b": b}, None) if op == "d" else (None, key | {"a": a, "b": b})
        payload = with_schema(columns, change(op, block, *images))
        lines.append(capture.json(key_of(columns, key), payload))
        if op == "d":
            lines.append(capture.raw(dumps(key_of(columns, key)), None))
    return lines


def documents_of_mongodb() -> list[Line]:
    """Two collections: of one models are generated, of the other they are written by hand."""

    def sender(capture: Capture, collection: str) -> Any:
        def send(op: str, number: int, after: Row | None = None, **more: Any) -> Line:
            of_source = {"connector": "mongodb", "db": "mg", "collection": collection, "ord": 1}
            texts = {
                name: json.dumps(more.pop(name)) if name in more else None
                for name in ("before", "filter", "patch")
            }
            envelope = {
                **texts,
                "after": None if after is None else json.dumps(after),
                "op": op,
                "source": {**of_source, "ts_ms": NOW_MS},
                **more,
            }
            return capture.json({"id": f"{number}"}, envelope)

        return send

    def update(updated: Row, *removed: str, **truncated: int) -> Row:
        arrays = [{"field": name, "size": size} for name, size in truncated.items()]
        return {
            "updateDescription": {
                "updatedFields": json.dumps(updated),
                "removedFields": [*removed] or None,
                "truncatedArrays": arrays or None,
            }
        }

    def person(number: int, **more: Any) -> Row:
        return {"_id": {"$numberLong": f"{number}"}, "born": {"$date": 0}, "id": "own"} | more

    people = Capture("mongo.people")
    send = sender(people, "people")
    lines = [
        send("r", 1, person(1, name="Ana", balance={"$numberDecimal": "1.50"}, kin={"a": [1]})),
        send("c", 2, person(2, name="gone")),
        send("c", 3, person(3, name="Cy", photo={"$binary": "AAE=", "$type": "00"})),
        send("u", 1, **update({"name": "Bo", "born": {"$date": "1970-01-01T00:00:01Z"}}, "kin")),
        send("d", 2),
        people.raw(dumps({"id": "2"}), None),
        # A document that is replaced loses what it had.
        send("u", 3, {"_id": 3, "name": None}),
        # Of connectors before 2.0.
        send("u", 4, patch={"_id": 4, "name": "Di"}, filter={"_id": 4}),
        send("u", 4, patch={"$v": 1, "$set": {"id": "new"}, "$unset": {"name": True}}),
    ]
    places = Capture("debezium.mongo.places")
    send = sender(places, "places")
    rome, oslo = {"city": "Rome", "zip": "00100"}, {"city": "Oslo", "zip": "0010"}
    lines += [
        send("c", 1, {"_id": 1, "at": rome, "tags": ["a", "b", "c"], "n": 1}),
        send("c", 2, {"_id": 2, "at": rome, "tags": ["a"], "n": 1}),
        send("c", 3, {"_id": 3, "at": rome, "tags": ["a"], "n": 1}),
        send("c", 4, {"_id": 4, "at": "Rome", "tags": None, "n": 1}),
        # What is inside of others is known by its path only; the rest of them is not.
        send("u", 1, **update({"at.city": "Bari", "n": 2}, "at.zip", tags=1)),
        # Applied to the document before it.
        send("u", 2, before={"_id": 2, "at": rome, "tags": ["a"]}, **update({"at.city": "Pisa"})),
        send("u", 3, **update({"at": oslo})),
    ]
    return lines


def change_streams() -> list[Line]:
    """Two collections as MongoDB's own connector ships them: change events, and documents alone."""
    pets, toys = Capture("streams.pets"), Capture("streams.toys")

    def change(operation_type: str, number: int, **more: Any) -> Line:
        key = {"_id": {"$numberLong": f"{number}"}}
        message = {
            "_id": {"_data": f"82{pets.lines:06x}"},
            "operationType": operation_type,
            "clusterTime": {"$timestamp": {"t": NOW_MS // 1000, "i": pets.lines}},
            "ns": {"db": "mg", "coll": "pets"},
            "documentKey": key,
        }
        if "fullDocument" in more:
            more["fullDocument"] = key | more["fullDocument"]
        return pets.json(key, message | more)

    def described(updated: Row, *removed: str) -> Row:
        return {"updateDescription": {"updatedFields": updated, "removedFields": [*removed]}}

    copied = {"_id": {"_id": 1, "copyingData": True}}
    born, later = {"$date": 0}, {"$date": {"$numberLong": "1000"}}
    lines = [
        change("insert", 1, **copied, fullDocument={"name": "Rex", "born": born, "kin": [1]}),
        change("insert", 2, fullDocument={"name": "gone", "born": born}),
        change("insert", 3, fullDocument={"name": "Tim", "born": born, "kg": 2.5}),
        change("update", 1, **described({"born": later}, "kin")),
        change("delete", 2),
        change("replace", 3, fullDocument={"name": "Tom"}),
        change("invalidate", 4),
    ]
    balls, kites, cubes = ({"_id": {"$oid": f"{number:024x}"}} for number in range(3))
    lines += [
        toys.json(balls, balls | {"price": {"$numberDecimal": "1.50"}}),
        toys.json(kites, kites | {"price": {"$numberDecimal": "2.50"}}),
        toys.json(balls, balls | {"price": {"$numberDecimal": "9.75"}}),
        toys.raw(dumps(kites), None),
        toys.json(cubes, cubes),
    ]
    return lines


PLACES_SQL: Final = """
{{
    change_log(
        source_database="mg",
        source_table="places",
        key={"_id": "int"},
        columns={
            "city": {"path": "at.city", "type": "string"},
            "zip": {"path": "at.zip", "type": "string"},
            "second": {"path": "tags.1", "type": "string"},
            "at": "string",
            "tags": "array<string>",
            "n": "int",
            "doc": {"path": "$", "type": "string"},
        },
    )
}}
"""


def evolving(capture: Capture, version: int) -> list[Line]:
    """A table whose columns come and widen; each version updates row 1 and adds a row."""
    quantity = column("quantity", "int64" if version > 1 else "int32")
    columns = [column("id", "int32"), quantity, decimal_column("price", 6 + version, 2)]
    if version > 1:
        columns.append(column("Discount %", "float64"))
    lines = []
    for row in (1, version):
        image: Row = {"id": row, "quantity": 10 * version if version < 2 else 2**40 + version}
        image["price"] = unscaled(f"{version}.50", 2)
        if version > 1:
            image["Discount %"] = 0.25 * version
        op = "u" if row < version else "c"
        payload = change(op, source("stock"), None, image)
        lines.append(capture.json(key_of(columns, {"id": row}), with_schema(columns, payload)))
    return lines if version > 1 else lines[:1]


COUNTED: Final = "shop.clicks"


def equal_rows() -> list[Line]:
    """A table without a key: of three equal rows one goes, and another row changes."""
    capture = Capture(COUNTED)
    page, other = {"at": 1, "page": "/"}, {"at": 2, "page": "/a"}
    changes: list[tuple[str, Row | None, Row | None]] = [
        *[("c", None, page)] * 3,
        ("c", None, other),
        ("u", other, {**other, "at": 3}),
        ("d", page, None),
    ]
    return [capture.json(None, change(op, source("clicks"), *images)) for op, *images in changes]


# --- The lake -------------------------------------------------------------------------------------


@dataclass
class World:
    """A lake with every capture landed, the project that generate wrote to, and what it said."""

    lake: Lake
    reports: dict[str, Report] = field(default_factory=dict)
    stock: Capture = field(default_factory=lambda: Capture("shop.stock"))

    @property
    def project(self) -> Path:
        return self.lake.project

    def generate(
        self, *topics: str, key: Sequence[str] = (), keyless: bool = False, **options: Any
    ) -> Report:
        keys = GivenKeys(key, keyless=keyless)
        return generate(self.lake.load(), Options(topics, keys=keys, **options))

    def files(self) -> dict[Path, str]:
        """All that generate may write."""
        paths = [self.project / "dbt_project.yml", *(self.project / "models").rglob("*.*")]
        return {path: path.read_text() for path in paths}

    def contract(self, model: str) -> dict[str, Any]:
        """The columns of a gold table's description, by name."""
        text = (self.project / "models" / "gold" / f"{model}.yml").read_text()
        return {each["name"]: each for each in yaml.safe_load(text)["models"][0]["columns"]}

    def columns(self, table: str) -> dict[str, tuple[str, str]]:
        """A table's columns with their types and comments."""
        rows = self.lake.sql(f"describe {table}")
        columns = {}
        for row in rows:
            if row["col_name"][:1] in ("#", ""):
                break
            columns[row["col_name"]] = (row["data_type"], row["comment"])
        return columns

    def rows(self, table: str, *key: str) -> dict[Any, Row]:
        """A gold table by key, technical columns left out, maps as dicts."""
        rows = {}
        for row in self.lake.read(f"gold.{table}"):
            plain = {name: plain_value(value) for name, value in row.items() if name[:1] != "_"}
            rows[tuple(row[each] for each in key) if len(key) > 1 else row[key[0]]] = plain
        return rows


def plain_value(value: Any) -> Any:
    is_map = isinstance(value, list) and value and isinstance(value[0], tuple)
    return dict(value) if is_map else value


def the_table(report: Report, source_table: str) -> Outcome:
    return next(each for each in report.tables if each.source == source_table)


TOPICS: Final = {
    "types.with.schema": "debezium_json",
    "types.without.schema": "debezium_json",
    "shop.cdc": "debezium_json",
    "arcion_geo": "arcion_json",
    "lindorm_members": "lindorm_json",
    "lindorm_hbase": "lindorm_json",
    "aero.msgpack": "aerospike_messagepack",
    "aero.json": "aerospike_json",
    "aero.flat": "aerospike_flat_json",
    "aero.avro": "aerospike_avro",
    "dms.hr": "aws_dms_json",
    "roach.rides": "cockroachdb_json",
    "maxwell.shop": "maxwell_json",
    "canal.shop": "canal_json",
    "unwrapped.suppliers": "debezium_unwrapped_json",
    "unwrapped.notes": "debezium_unwrapped_json",
    "unwrapped.tags": "debezium_unwrapped_json",
    "mongo.people": "debezium_json",
    "streams.pets": "mongodb_json",
    "streams.toys": "mongodb_json",
    "shop.stock": "debezium_json",
    "shop.cells": "debezium_json",
    HOSTILE: "debezium_json",
    COUNTED: "debezium_json",
}
KEYS: Final[dict[str, list[str]]] = {
    "arcion_geo": ["code"],
    "lindorm_members": ["id"],
    "dms.hr": ["id"],
    "roach.rides": ["city", "n"],
}
BUILT: Final = (
    "+typed",
    "+untyped",
    "+shop_public_order",
    "+order_lines",
    "+shop_public_links",
    "+country",
    "+members",
    "+cells",
    "+players",
    "+sensors",
    "+visits",
    "+badges",
    "+staff",
    "+rides",
    "+carts",
    "+wares",
    "+suppliers",
    "+notes",
    "+tags",
    "+people",
    "+parts",
    "+places",
    "+stock",
    "+pets",
    "+toys",
    "+clicks",
    *(f"+{name}" for name in NAMED.values()),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Everything landed, in a lake that has never been built, and every topic generated."""
    folder = tmp_path_factory.mktemp("generate")
    world = World(Lake(folder, copy_project(folder / "project")))
    lines = [*all_types(), *named_tables(), *keyless_arcion(), *lindorm(), *aerospike()]
    lines += [
        *aerospike_in_avro(),
        *rows_without_envelope(),
        *documents_of_mongodb(),
        *change_streams(),
        *hostile_names(),
        *equal_rows(),
    ]
    lines += cells_with_numbers_as_keys()
    world.lake.land([*lines, *evolving(world.stock, 1)])
    # As if a registry had been asked before.
    known = {number: Registered("AVRO", (json.dumps(schema),)) for number, schema in AVRO.items()}
    avro_schemas.keep(world.lake.spark, known, None)
    for topic, format_name in TOPICS.items():
        world.reports[topic] = world.generate(
            topic, format=format_name, key=KEYS.get(topic, ()), keyless=topic == COUNTED
        )
    models = world.project / "models"
    (models / "silver" / "places_changes.sql").write_text(PLACES_SQL)
    gold = (
        '{{ config(contract={"enforced": false}) }}\n{{ current_state(ref("places_changes")) }}\n'
    )
    (models / "gold" / "places.sql").write_text(gold)
    tests = "data_tests: [unique_key, equals_refold, no_absent_keys]"
    (models / "gold" / "places.yml").write_text(f"models:\n  - name: places\n    {tests}\n")
    return world


@pytest.fixture(scope="module")
def built(world: World) -> World:
    """The generated tables built by dbt, nothing else done by hand."""
    statuses = world.lake.dbt("run", "-s", *BUILT, as_of=AS_OF)
    assert {name: status for name, status in statuses.items() if status not in OK} == {}
    assert len(statuses) > 50
    return world


OK: Final = ("success", "pass")


# --- What was written -----------------------------------------------------------------------------


def declared_types(world: World, model: str) -> dict[str, str]:
    """The columns of a gold table's description."""
    return {
        name: each["data_type"]
        for name, each in world.contract(model).items()
        if not name.startswith("_")
    }


def test_declared_types_become_spark_types(world: World) -> None:
    expected = {"pk": "int", **{each.name: each.type for each in DECLARED}}
    assert len(expected) == 78
    assert declared_types(world, "typed") == expected


def test_values_that_nobody_declares_get_the_narrowest_type(world: World) -> None:
    expected = {"pk": "int", **{each.name: each.type for each in OBSERVED}}
    assert len(expected) == 43
    assert declared_types(world, "untyped") == expected


def test_topics_get_their_formats(world: World) -> None:
    project = yaml.safe_load((world.project / "dbt_project.yml").read_text())
    original = yaml.safe_load((ROOT / "dbt_project.yml").read_text())
    added = [{"topic": topic, "format": name} for topic, name in TOPICS.items()]
    assert project["vars"]["topics"] == [*original["vars"]["topics"], *added]
    without = [
        line
        for line in (world.project / "dbt_project.yml").read_text().splitlines()
        if not line.startswith("    - { topic: ") or yaml.safe_load(line)[0] not in added
    ]
    assert without == (ROOT / "dbt_project.yml").read_text().splitlines()


def test_names(world: World) -> None:
    of_topics = {topic: report.tables for topic, report in world.reports.items()}
    # Whose rows name no table: it is the topic's.
    unnamed = ("unwrapped.notes", "unwrapped.tags", "roach.rides", "streams.toys")
    for topic, name in ((topic, topic.rpartition(".")[2]) for topic in unnamed):
        assert [(each.source, each.name) for each in of_topics.pop(topic)] == [("(no table)", name)]
    names = {each.source: each.name for tables in of_topics.values() for each in tables}
    assert names == {
        "shop.public.typed": "typed",
        "shop.public.untyped": "untyped",
        # `order` is SQL's, and two tables would both be `links`.
        "shop.public.order": "shop_public_order",
        "shop.public.OrderLines": "order_lines",
        "shop.public.links": "shop_public_links",
        "archive.public.links": "archive_public_links",
        "geo.country": "country",
        "ld-1.default.members": "members",
        "ld-1.default.cells": "cells",
        "game.players": "players",
        "game (no set)": "game",
        "iot.sensors": "sensors",
        "web.visits": "visits",
        "club.badges": "badges",
        "mx.carts": "carts",
        "cn.wares": "wares",
        "inv.suppliers": "suppliers",
        "mg.people": "people",
        "mg.pets": "pets",
        "hr.staff": "staff",
        "y.public.parts": "parts",
        "shop.public.stock": "stock",
        "shop.public.clicks": "clicks",
        **{f"shop.public.{source}": name for source, name in NAMED.items()},
    }


def test_the_report_says_what_was_written_and_what_was_not_read(world: World) -> None:
    report = world.reports["shop.cdc"]
    assert report.messages == 15
    text = report.text()
    assert "shop.public.OrderLines -> order_lines: created" in text
    assert "  order_id int, key" in text
    assert "  wrote models/silver/order_lines_changes.sql" in text
    assert "note: payloads that can't be decoded say nothing here: 1 not_json" in text
    files = the_table(report, "shop.public.links").files
    assert files == [
        "models/silver/shop_public_links_changes.sql",
        "models/silver/shop_public_links_changes.yml",
        "models/gold/shop_public_links.sql",
        "models/gold/shop_public_links.yml",
    ]
    assert json.loads(report.json())["tables"][0]["status"] == "created"


def test_descriptions_say_where_a_column_comes_from(world: World) -> None:
    columns = world.contract("typed")
    assert columns["c_date"]["description"] == (
        "Field `c_date` of the source, declared as `int32`, `io.debezium.time.Date`."
    )
    assert columns["c_infinite"]["description"].endswith(
        "; text, because no other type holds all its values."
    )


def test_no_line_is_too_long(world: World) -> None:
    for report in world.reports.values():
        for name in (name for table in report.tables for name in table.files):
            lines = (world.project / name).read_text().splitlines()
            too_long = [line for line in lines if len(line) > 100]
            # A name is one word.
            assert all(re.search("long.long", line, re.IGNORECASE) for line in too_long)


# --- What was built -------------------------------------------------------------------------------


# Of a key that was given, of records, of documents, of cells, of no key. test_a_source_that_grows
# has the tests of a table with a schema block.
TESTED: Final = ("country", "players", "people", "cells", "clicks")


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param(TESTED, id="some"),
        pytest.param([each.removeprefix("+") for each in BUILT], id="all", marks=pytest.mark.long),
    ],
)
def test_generated_data_tests_pass(built: World, tables: Sequence[str]) -> None:
    selected = (*tables, "--exclude-resource-type", "unit_test")
    statuses = built.lake.dbt("test", "-s", *selected, as_of=AS_OF)
    assert {name: status for name, status in statuses.items() if status not in OK} == {}
    assert len(statuses) > len(tables)


@pytest.mark.parametrize(("table", "samples"), [("typed", DECLARED), ("untyped", OBSERVED)])
def test_no_digit_is_lost(built: World, table: str, samples: list[Sample]) -> None:
    rows = built.rows(table, "pk")
    assert rows.keys() == {0, 1}
    for each in samples:
        for row in (0, 1):
            value, expected = rows[row][each.name], each.expected[row]
            if isinstance(expected, float) and expected != expected:
                assert value != value, each.name
                continue
            if each.type.startswith("map"):
                value = None if value is None else dict(value)
            assert value == expected, each.name
            assert type(value) is type(expected), each.name
            if isinstance(expected, Decimal):
                assert value.as_tuple() == expected.as_tuple(), each.name


def test_nothing_is_a_misfit(built: World) -> None:
    for name in ("typed", "untyped", "country", "players", "cells"):
        found = built.lake.sql(f"select * from silver.{name}_changes where size(_misfits) > 0")
        assert not found, name


def test_columns_with_any_name_are_built(built: World) -> None:
    rows = built.rows("shop_public_order", "user")
    expected = {column_name: f"value of {name}" for name, column_name in NAMES.items()}
    assert rows == {1: {"user": 1, **expected}}


def test_names_are_data(built: World) -> None:
    with built.lake.dbt_folders():
        graph = read_manifest(built.lake.load()).nodes
    for source_name, name in NAMED.items():
        columns = list(built.contract(name))[:2]
        (row,) = built.rows(name, columns[0]).values()
        assert list(row.values()) == [source_name, f"value of {source_name}"]
        key = json.dumps({columns[0]: source_name})
        answer = why(built.lake.reader(), keyed_table(graph, name), key)
        assert (answer.reason, answer.differences) == (Reason.LIVE, [])
        # As a terminal gets it.
        assert all(line.isprintable() for line in answer.text().split("\n"))
    assert all(line.isprintable() for line in built.reports[HOSTILE].text().split("\n"))
    assert [each for each in built.lake.broken_sums() if HOSTILE in each] == []


def test_keys_of_several_columns(built: World) -> None:
    rows = built.rows("order_lines", "order_id", "line_no")
    assert {key: row["tag"] for key, row in rows.items()} == {(1, 1): "a", (2, 1): "c"}
    assert built.rows("shop_public_links", "left", "right").keys() == {(1, 1), (2, 1)}


def test_a_table_without_keys_takes_the_given_one(built: World) -> None:
    assert built.rows("country", "code") == {
        "PE": {
            "code": "PE",
            "pop": 5_000_000_000,
            "area": Decimal("1285216.00"),
            "since": date(2026, 1, 31),
        }
    }
    assert built.rows("members", "id") == {"1004": {"id": "1004", "name": None, "points": 13}}


def test_equal_rows_of_a_table_without_a_key_are_counted(built: World) -> None:
    rows = built.lake.read("gold.clicks")
    assert sorted((row["at"], row["page"], row["_copy"]) for row in rows) == [
        (1, "/", 1),
        (1, "/", 2),
        (3, "/a", 1),
    ]
    assert list(built.contract("clicks"))[-3:] == ["_row", "_copy", "_position"]


def test_unwrapped_rows_have_the_types_of_their_schema(built: World) -> None:
    assert declared_types(built, "tags") == {
        "id": "bigint",
        "tag": "string",
        "total": "decimal(20,2)",
        "day": "date",
        "after": "string",
    }
    totals = {number: row["total"] for number, row in built.rows("tags", "id").items()}
    assert totals == {1: Decimal("123.45"), 2: Decimal("12345678901234567.89")}


def test_unit_tests_hold_whatever_formats_topics_have(built: World) -> None:
    # Of formats that read headers, too.
    selection = ("-s", "other_events,test_type:unit")
    statuses = built.lake.dbt("test", *selection, as_of=AS_OF)
    assert len(statuses) >= 3 and set(statuses.values()) == {"pass"}


def test_an_hbase_table_has_the_key_row(built: World) -> None:
    assert built.rows("cells", "ROW") == {
        "user1": {"ROW": "user1", "f_name": "lucky", "f_age": b"\0\0\0\x32"},
        "größe": {"ROW": "größe", "f_name": "", "f_age": b"\0\0\0\x33"},
    }


def test_aerospike_bins(built: World) -> None:
    rows = {row["name"]: row for row in built.rows("players", "_digest").values()}
    assert rows.keys() == {"Ana", "Bo"}
    ana = rows["Ana"]
    assert (ana["score"], rows["Bo"]["score"]) == (7, -(2**63))
    assert (ana["ratio"], ana["alive"], ana["blob"], ana["tags"]) == (
        0.5,
        True,
        b"\0\1",
        ["a", "b"],
    )
    assert ana["levels"] == {"one": 1, "two": 2**40}
    # Binary in a list is JSON text; text bins stay text.
    assert (ana["ext"], ana["python"]) == ('["ag=="]', b"\2")
    assert (ana["odd"], ana["seen"]) == ('["AQ==","x"]', "2026-01-01")
    sensors = built.rows("sensors", "_digest")
    assert list(sensors.values()) == [{"temp": 21.0, "raw": b"\0\1", "event_id": "e1", "count": 3}]


def test_flat_json_of_aerospike(built: World) -> None:
    rows = built.rows("visits", "_digest").values()
    assert list(rows) == [{"page": "/", "hits": 2**40, "tags": ["a", "b"], "ratio": None}]


def test_aerospike_in_avro(built: World) -> None:
    rows = {row["name"]: row for row in built.rows("badges", "_digest").values()}
    assert rows == {
        "Ana": {"name": "Ana", "worn": 2**40, "face": None, "any": "y", "notes": None},
        "Bo": {"name": "Bo", "worn": None, "face": b"", "any": "z", "notes": None},
    }
    assert built.contract("badges")["notes"]["data_type"] == "map<string,int>"


def test_rows_of_maxwell(built: World) -> None:
    assert built.rows("carts", "Id") == {
        1: {"Id": 1, "total": 9.25, "at": None},
        4: {"Id": 4, "total": 3.0, "at": None},
    }


def test_records_of_aws_dms(built: World) -> None:
    """The table was emptied, one key replaced another, and what an update leaves out is null."""
    assert built.rows("staff", "id") == {
        1: {"id": 1, "pay": 12345678.9, "hired": None},
        22: {"id": 22, "pay": 7.25, "hired": "2026-01-31T00:00:00Z"},
        4: {"id": 4, "pay": 0.0, "hired": None},
    }


def test_rows_of_cockroachdb(built: World) -> None:
    at = "2026-01-31T10:00:00.25"
    assert sorted(built.rows("rides", "city", "n").values(), key=lambda row: row["city"]) == [
        {"city": "oslo", "n": 1, "fare": None, "at": at},
        {"city": "rome", "n": 1, "fare": "2.50", "at": at},
    ]


def test_rows_of_canal(built: World) -> None:
    assert built.rows("wares", "id") == {
        1: {"id": 1, "price": Decimal("12345678.90"), "name": "007", "raw": None, "state": "new"},
        22: {"id": 22, "price": Decimal("2.50"), "name": "n2", "raw": None, "state": ""},
        4: {
            "id": 4,
            "price": Decimal("4.50"),
            "name": "n4",
            "raw": b"\x00\xff",
            "state": "it's done",
        },
    }


def test_rows_of_cells_whose_key_is_a_number(built: World) -> None:
    """A column that a change does not name stays; 10 and 1E+1 are one key, and so are 2.5 and 2.50,
    and 3 and 3.0.
    """
    assert built.rows("parts", "id") == {
        "10": {"id": "10", "a": 2, "b": None},
        "3": {"id": "3", "a": None, "b": "new"},
    }


def test_unwrapped_rows(built: World) -> None:
    assert built.rows("suppliers", "id") == {1: {"id": 1, "name": "Bo"}}
    assert built.rows("notes", "id") == {1: {"id": 1, "text": "b"}}


def test_documents_of_mongodb(built: World) -> None:
    assert built.contract("people")["_id"]["data_type"] == "bigint"
    assert declared_types(built, "people") == {
        "born": "timestamp",
        "id": "string",
        "name": "string",
        "balance": "decimal(9,2)",
        "kin": "string",
        "photo": "binary",
    }
    rows = {row["_id"]: row for row in built.lake.read("gold.people")}
    assert rows.keys() == {1, 3, 4}
    born = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    values = [rows[1][name] for name in ("name", "born", "id", "balance", "kin", "photo")]
    assert values == ["Bo", born, "own", Decimal("1.50"), None, None]
    assert {rows[3][name] for name in ("born", "id", "name", "balance", "photo")} == {None}
    assert [rows[4][name] for name in ("name", "id")] == [None, "new"]


def test_documents_of_change_streams(built: World) -> None:
    assert built.contract("pets")["_id"]["data_type"] == "bigint"
    rows = {row["_id"]: row for row in built.lake.read("gold.pets")}
    assert rows.keys() == {1, 3}
    later = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert [rows[1][name] for name in ("name", "born", "kin", "kg")] == ["Rex", later, None, None]
    assert [rows[3][name] for name in ("name", "born", "kin", "kg")] == ["Tom", None, None, None]
    toys = {row["_id"]: row["price"] for row in built.lake.read("gold.toys")}
    assert toys == {f"{0:024x}": Decimal("9.75"), f"{2:024x}": None}


def test_columns_by_path(built: World) -> None:
    rows = {row["_id"]: row for row in built.lake.read("gold.places")}
    of = ("city", "zip", "second", "at", "tags", "n")
    rome = '{"city":"Rome","zip":"00100"}'
    # What an update inside of a column leaves unknown stays as it was, and is told.
    assert [rows[1][name] for name in of] == ["Bari", None, None, rome, ["a", "b", "c"], 2]
    assert [rows[2][name] for name in of] == [
        *("Pisa", "00100", None, '{"city":"Pisa","zip":"00100"}', ["a"], None)
    ]
    assert [rows[3][name] for name in of[:3]] == ["Oslo", "0010", None]
    assert [rows[4][name] for name in of] == [None, None, None, "Rome", None, 1]
    assert rows[2]["doc"] == '{"_id":2,"at":{"city":"Pisa","zip":"00100"},"tags":["a"]}'
    told = {
        (row["_id"], misfit["column"], misfit["text"])
        for row in built.lake.read("silver.places_changes")
        for misfit in row["_misfits"]
    }
    part = '"$partial":{"updated":{"at.city":"Bari","at.zip":null},"truncated":{"tags":1}}'
    assert told == {
        (1, "at", '{"at.city":"Bari","at.zip":null}'),
        (1, "tags", '{"tags":{"$truncated":1}}'),
        (1, "doc", f'{{"_id":1,"n":2,{part}}}'),
        (3, "doc", '{"_id":3,"at":{"city":"Oslo","zip":"0010"},"$partial":{}}'),
    }
    # A column that comes later is filled as if it had always been there.
    model = built.project / "models" / "silver" / "places_changes.sql"
    later = '"n": "int",\n            "again": {"path": "at.city", "type": "string"},'
    model.write_text(PLACES_SQL.replace('"n": "int",', later))
    builds = built.lake.build("silver.places_changes")
    statuses = built.lake.dbt("build", "-s", "places_changes+", as_of=AS_OF)
    assert set(statuses.values()) <= set(OK), statuses
    assert built.lake.build("silver.places_changes") == builds
    cities = {row["_id"]: (row["city"], row["again"]) for row in built.lake.read("gold.places")}
    assert cities == {1: ("Bari",) * 2, 2: ("Pisa",) * 2, 3: ("Oslo",) * 2, 4: (None, None)}


def test_every_column_is_described(built: World) -> None:
    """Gold's are by its contract, and those of the change log by gold's."""
    for name in ("typed", "shop_public_order", "players"):
        described = built.contract(name)
        actual = built.columns(f"gold.{name}")
        assert list(described) == list(actual)
        logged = built.columns(f"silver.{name}_changes")
        for column_name, column in described.items():
            type_name, comment = actual[column_name]
            assert type_name.replace("`", "") == column["data_type"]
            if not column_name.startswith("_"):
                assert comment == column["description"]
                assert logged[column_name] == (type_name, comment)


# --- Again ----------------------------------------------------------------------------------------


def test_generate_again_changes_nothing(world: World) -> None:
    before = world.files()
    report = world.generate(*TOPICS)
    assert len(report.tables) == 28
    statuses = {each.source: each.status for each in report.tables}
    # Of two topics, which are two tables.
    nameless = next(each for each in report.tables if each.source == "(no table)")
    assert statuses.pop("(no table)") == "failed"
    topics = "roach.rides, streams.toys, unwrapped.notes, unwrapped.tags"
    assert (nameless.error or "").startswith(f"{topics}: their rows name no")
    assert set(statuses.values()) == {"unchanged"}, report.text()
    assert world.files() == before


def test_a_source_that_grows(built: World) -> None:
    """New columns and wider types: a warning, the difference, an incremental run, all rows."""
    lake = built.lake
    hand = built.project / "models" / "gold" / "stock.yml"
    described = "Field `quantity` of the source, declared as `int32`."
    by_hand = hand.read_text().replace(
        f"description: {described}", "# Counted by hand.\n        description: What is there."
    )
    assert by_hand != hand.read_text()
    hand.write_text(by_hand)
    silver = built.project / "models" / "silver" / "stock_changes.sql"
    silver.write_text("-- A comment.\n" + silver.read_text())
    lake.land(evolving(built.stock, 2))

    test = "no_unknown_columns_stock_changes_"
    statuses = lake.dbt("run", "-s", "+stock_changes", as_of=AS_OF)
    assert set(statuses.values()) == {"success"}
    assert lake.dbt("test", "-s", test, as_of=AS_OF) == {test: "warn"}

    report = built.generate("shop.stock")
    (outcome,) = report.tables
    assert (outcome.status, outcome.changes) == (
        "changed",
        [
            "+ Discount double (from Discount %)",
            "~ quantity: int -> bigint",
            "~ price: decimal(7,2) -> decimal(8,2)",
        ],
    )
    assert len(outcome.files) == 2
    assert hand.read_text() == by_hand.replace(
        "description: What is there.\n        data_type: int",
        "description: What is there.\n        data_type: bigint",
    ).replace(
        '"decimal(7,2)"\n',
        (
            '"decimal(8,2)"\n'
            "      - name: Discount\n"
            "        description: Field `Discount %` of the source, declared as `float64`.\n"
            "        data_type: double\n"
        ),
    )
    assert silver.read_text().startswith("-- A comment.\n{{\n")
    statuses = lake.dbt("build", "-s", "stock_changes+", as_of=AS_OF)
    assert set(statuses.values()) <= set(OK), statuses
    stock = {"quantity": 2**40 + 2, "price": Decimal("2.50"), "Discount": 0.5}
    assert built.rows("stock", "id") == {1: {"id": 1, **stock}, 2: {"id": 2, **stock}}
    assert lake.dbt("test", "-s", test, as_of=AS_OF) == {test: "pass"}
    assert built.generate("shop.stock").tables[0].status == "unchanged"


# --- What can't be done ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topics", "options", "message"),
    [
        (["nowhere"], {}, r"no message of the topic nowhere: land it first .*It holds aero\."),
        (["shop.cdc"], {"table": "nothing"}, r"no such table in the topic. There are archive"),
        (["shop.cdc"], {"table": "links"}, r"ambiguous: it may be archive.public.links, shop"),
        (["shop.cdc"], {"name": "x"}, r"--name is for one table: add --table"),
        (["shop.cdc"], {"key": ["x"]}, r"--key is for one table: add --table"),
        (["aero.json"], {"name": "No-Name"}, r"--name No-Name: a model's name has lower-case"),
        (["aero.json"], {"name": "orders"}, r"--name orders: models/silver/orders_changes.sql is"),
        (["aero.json"], {"name": "other_events"}, r"project has a model of that name"),
        (["aero.json"], {"format": "lindorm_json"}, r"aero.json is aerospike_json by vars.topics"),
        (["aero.json"], {"key": ["x"]}, r"declares no key that generate could change"),
        (["lindorm_members"], {"name": "m2"}, r"no key: give --key COLUMN,\.\.\. \(.* are id\)"),
        (
            ["lindorm_members"],
            {"name": "m2", "key": ["x"]},
            r"--key x: no such column. There are id",
        ),
    ],
)
def test_errors(world: World, topics: list[str], options: dict[str, Any], message: str) -> None:
    before = world.files()
    with pytest.raises(LakehouseError, match=message):
        world.generate(*topics, **options)
    assert world.files() == before


def test_a_topic_without_a_format(world: World) -> None:
    capture = Capture("nobody.knows")
    world.lake.land([capture.json({"id": 1}, change("c", source("mystery"), None, {"id": 1}))])
    with pytest.raises(LakehouseError, match=r"nobody\.knows: give --format.*like debezium_json"):
        world.generate("nobody.knows")
    # Another one is refused, also one that would decode them.
    for other in ("aerospike_messagepack", "arcion_json"):
        wrong = rf"--format {other}: the topic nobody\.knows is of another format, .* debezium_json"
        with pytest.raises(LakehouseError, match=wrong):
            world.generate("nobody.knows", format=other)


def test_tables_without_keys_don_t_keep_the_others_from_being_made(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = Capture("half.keyed")
    world.lake.land(
        [
            capture.json({"id": 1}, change("c", source("keyed"), None, {"id": 1})),
            capture.json(None, change("c", source("unkeyed"), None, {"a": 1, "b": None})),
        ]
    )
    arguments = ["generate", "--topic", "half.keyed", "--format", "debezium_json"]
    with pytest.raises(Exception, match="1 of 2 tables got no models"):
        command_line.main([*arguments, "--project-dir", str(world.project)], standalone_mode=False)
    printed = capsys.readouterr().out
    assert "shop.public.keyed -> keyed: created" in printed
    assert "give --table shop.public.unkeyed --key COLUMN,... (columns that always have" in printed
    command_line.main(
        [
            *("generate", "--topic", "half.keyed", "--table", "unkeyed", "--key", "A,b", "--json"),
            *("--name", "unkeyed_rows", "--project-dir", str(world.project)),
        ],
        standalone_mode=False,
    )
    report = json.loads(capsys.readouterr().out)
    assert report["tables"][0]["changes"] == ["a int, key", "b string, key"]


def test_tables_of_one_name_get_models_of_their_own(world: World) -> None:
    """The demo's in another topic; and one that only a topic has which nobody has listed, and that
    comes late in it.
    """
    first = Capture("twins.two")
    filler = {**source("filler"), "db": "two"}
    lines = [first.json({"no": n}, change("c", filler, None, {"no": n})) for n in range(150)]
    for topic, table in (
        (
            "other.inventory.products",
            {"connector": "mysql", "db": "inventory", "table": "products"},
        ),
        ("twins.one", {**source("twin"), "db": "one"}),
        ("twins.two", {**source("twin"), "db": "two"}),
    ):
        capture = first if topic == first.topic else Capture(topic)
        lines.append(capture.json({"no": 1}, change("c", table, None, {"no": 1, "label": "x"})))
    world.lake.land(lines)
    report = world.generate("other.inventory.products", "twins.one", format="debezium_json")
    products, twin = report.tables
    assert (products.name, products.status) == ("inventory_products", "created")
    assert "products_changes.sql names no topic" in products.notes[0]
    assert (twin.name, twin.status) == ("one_public_twin", "created")
    assert twin.notes[-1].startswith("it is not called twin, because another table")


def test_all_tables_count_that_have_landed(built: World) -> None:
    """Those that are decoded, those that have landed since, and those that nobody has listed."""
    spark, landed = built.lake.spark, Capture("shop.late")
    built.lake.land([landed.json({"no": 1}, change("c", source("late"), None, {"no": 1}))])
    names = {**TOPICS, landed.topic: "debezium_json"}
    formats = {topic: Formats.only(name) for topic, name in names.items()}
    profile = scan.profile_topics(spark, formats)
    tables = {(table, topic) for table, each in profile.tables.items() for topic in each.topics}
    assert {topic for _, topic in tables} == formats.keys()
    assert scan.tables_of(spark, formats) == tables
    assert scan.tables_of(spark, {**formats, landed.topic: None}) == tables


# --- Types ----------------------------------------------------------------------------------------


def values_of(values: Iterable[Any]) -> Values:
    seen = Values()
    for value in values:
        seen.add(value)
    return seen


def test_values_add_up_in_any_parts() -> None:
    values = [
        1,
        2**70,
        -5,
        msgspec.Raw("1.50"),
        "x",
        "2026-01-01",
        [1, "a"],
        {"k": 1},
        True,
        "AQ==",
    ]
    whole = values_of(values)
    for cut in range(len(values) + 1):
        parts = values_of(values[:cut])
        parts.merge(values_of(values[cut:]))
        for name in Values.__slots__:
            if name != "elements":
                assert getattr(parts, name) == getattr(whole, name), name


@pytest.mark.parametrize(
    ("declared", "values", "expected"),
    [
        (["int", "bigint"], [1], "bigint"),
        (["bigint", "int"], [1], "bigint"),
        (["int", "decimal(10,2)"], [1], "decimal(12,2)"),
        (["decimal(10,2)", "decimal(12,4)"], [1], "decimal(12,4)"),
        (["decimal(38,0)", "decimal(38,10)"], [1], "string"),
        (["int", "double"], [1, 2], "double"),
        (["bigint", "double"], [2**53 + 1], "string"),
        (["bigint", "double"], [1], "double"),
        (["int", "string"], [1, "a"], "string"),
        (["date", "timestamp_ntz"], ["2026-01-01"], "string"),
        (["int"], [2**31], "bigint"),
        (["int"], ["abc"], "string"),
        (["double"], [msgspec.Raw("0.12345678901234567890")], "decimal(38,20)"),
        # So many digits tell each double from all others.
        (["double"], [msgspec.Raw("0.12345678901234567")], "double"),
        ([], [msgspec.Raw("0.12345678901234567")], "decimal(18,17)"),
        (["double"], [msgspec.Raw("4.9E-324"), 1, "NaN"], "double"),
        (["int", "double"], [msgspec.Raw("1.9999999999999998E23")], "double"),
        (["double"], [msgspec.Raw("1E400")], "string"),
        (["double"], [msgspec.Raw("1E-400")], "string"),
        ([], [msgspec.Raw("4.9E-324"), msgspec.Raw("0.5")], "double"),
        ([], [msgspec.Raw("1E400")], "string"),
        ([], [msgspec.Raw("1E-400")], "string"),
        ([], [msgspec.Raw("0E-400"), msgspec.Raw("0.5")], "double"),
        ([], [msgspec.Raw("1.234567890123456789E-50")], "string"),
        (["array<double>"], [[msgspec.Raw("4.9E-324")]], "array<double>"),
        ([], [[msgspec.Raw("4.9E-324")]], "array<double>"),
        (["array<int>", "array<bigint>"], [[1]], "array<bigint>"),
        (["array<int>", "array<string>"], [[1]], "string"),
        (["map<string,int>"], [{"a": "x"}], "string"),
        ([None], [1], "int"),
        ([], [], "string"),
    ],
)
def test_several_declarations_and_values(
    declared: list[str | None], values: list[Any], expected: str
) -> None:
    assert column_type(declared, values_of(values)) == expected


@pytest.mark.parametrize(
    ("text", "type_name"),
    [
        ("2026-01-01", "date"),
        ("2026-11-21 10:00:00", "timestamp_ntz"),
        ("2026-11-21T10:00:00.5Z", "timestamp"),
    ],
)
def test_text_is_a_date_only_after_long(text: str, type_name: str) -> None:
    long = [text] * types.ENOUGH_TIMES
    assert observed_type(values_of(long)) == type_name
    assert observed_type(values_of(long[1:])) == "string"
    assert observed_type(values_of([*long, "n/a"])) == "string"
    assert column_type([], values_of(long), is_key=True) == "string"


def test_wider_is_the_same_from_both_sides() -> None:
    names = ["int", "bigint", "double", "string", "decimal(5,2)", "date", "array<int>", "boolean"]
    for one in names:
        for other in names:
            assert types.wider(one, other) == types.wider(other, one)
            assert types.holds(types.wider(one, other), one)


@pytest.mark.parametrize(
    "name", ["BIGINT UNSIGNED", "bigint unsigned(20)", "INT8 UNSIGNED ZEROFILL"]
)
def test_64_bits_without_a_sign_are_no_bigint(name: str) -> None:
    parameters = {"__debezium.source.column.type": name}
    assert declared_type(column("x", "int64", parameters=parameters)).type == "decimal(20,0)"
    precise = decimal_column("x", None, 0)
    precise["parameters"] |= parameters
    assert declared_type(precise).type == "decimal(20,0)"
    assert declared_type(column("x", "int64", parameters={})).type == "bigint"


def test_a_propagated_source_type_is_named() -> None:
    block = column("x", "int64", parameters={"__debezium.source.column.type": "INT UNSIGNED"})
    assert declared_type(block) == Declared("`INT UNSIGNED`, shipped as `int64`", "bigint")


def test_a_default_beyond_all_doubles_hides_no_types() -> None:
    text = dumps(with_schema([column("x", "int32", default="?")], {})).replace(b'"?"', b"1e400")
    block = block_of(text, Holds.ENVELOPE)
    assert block is not None and block.columns["x"][0].type == "int"


# --- Names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("OrderItems", "order_items"),
        ("HTTPServer2", "http_server2"),
        ("T_ORDER", "t_order"),
        ("  Straße nr. 5 ", "strasse_nr_5"),
        ("Crème", "creme"),
        ("客户", "u5ba2u6237"),
        ("2026", "t_2026"),
        ("--", ""),
        ("x" * 5000, "x" * 100),
        ("1" * 5000, "t_" + "1" * 98),
    ],
)
def test_snake_case(text: str, name: str) -> None:
    assert naming.snake(text) == name


def test_names_of_tables_are_never_the_same() -> None:
    tables = {
        TableId("a", "s", "t"): "x",
        TableId("b", "s", "t"): "x",
        TableId("a", "public", "user"): "x",
        TableId("a", None, "t_changes"): "x",
        TableId("a", None, "taken"): "x",
        TableId(None, None, None): "my.topic",
        TableId(None, "ns", None, True): "x",
        TableId(None, None, "table"): "only.topic",
        TableId("c", "d_e", "f"): "x",
        TableId("c_d", "e", "f"): "x",
        TableId("c", "d", "e_f"): "x",
    }
    names = naming.entity_names({table: {topic} for table, topic in tables.items()}, (), {"taken"})
    assert len(set(names.values())) == len(tables)
    digests = {names.pop(TableId("c", "d_e", "f")), names.pop(TableId("c_d", "e", "f"))}
    assert all(re.fullmatch("c_d_e_f_[0-9a-f]{8}", name) for name in digests)
    assert names == {
        TableId("a", "s", "t"): "a_s_t",
        TableId("b", "s", "t"): "b_s_t",
        TableId("a", "public", "user"): "a_public_user",
        TableId("a", None, "t_changes"): "t_changes",
        TableId("a", None, "taken"): "a_taken",
        TableId(None, None, None): "topic",
        TableId(None, "ns", None, True): "ns",
        TableId(None, None, "table"): "only_topic",
        TableId("c", "d", "e_f"): "e_f",
    }


# --- Projects without a lake ----------------------------------------------------------------------


NO_KEYS: Final = GivenKeys()


@dataclass
class Paper:
    """A project of models only, and what its topics carry, for generate without Spark."""

    root: Path
    name: str = "cdc_lakehouse"
    topics: dict[str, list[Line]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.root / "dbt_project.yml").write_text(f"name: {self.name}\n")

    def generate(
        self,
        *topics: str,
        table: str | None = None,
        keys: GivenKeys = NO_KEYS,
        name: str | None = None,
    ) -> Report:
        """What the command does with these topics, from a profile on."""
        others = {
            (each, topic)
            for topic in self.topics.keys() - topics
            for each in self.profile(topic).tables
        }
        report = Report(list(topics), 0)
        writer = Writer(
            ProjectFiles(self.root),
            topics,
            self.profile(*topics),
            lambda: others,
            table=table,
            name=name,
            keys=keys,
        )
        writer.write(report)
        return report

    def profile(self, *topics: str) -> TopicProfile:
        profile = TopicProfile()
        for topic in topics:
            for line in self.topics[topic]:
                key, value = (
                    None if line[each] is None else b64decode(line[each])
                    for each in ("key_b64", "value_b64")
                )
                position = Position(line["timestamp_ms"], topic, 0, line["offset"])
                profile.add(TOPICS.get(topic, "debezium_json"), key, value, position)
        profile.settle()
        return profile

    def read(self, layer: str, name: str) -> str:
        return (self.root / "models" / layer / name).read_text()

    def add(self, topic: str, *rows: tuple[Any, Mapping[str, Any], Row]) -> None:
        """Inserts: key, source block and row each."""
        capture = Capture(topic)
        lines = [capture.json(key, change("c", table, None, row)) for key, table, row in rows]
        self.topics.setdefault(topic, []).extend(lines)


@pytest.fixture
def paper(tmp_path: Path) -> Paper:
    return Paper(tmp_path)


KEYLESS: Final[dict[str, list[Row]]] = {
    "orders": [{"id": 1, "note": "x"}, {"id": 2, "note": None}],
    "lines": [{"ID": 7, "order_id": 1, "line_no": 1}],
    "notes": [{"Id": 1, "text": "a"}, {"Id": None, "text": "b"}],
    "clicks": [{"at": "2026-01-01", "page": "/"}],
}


@pytest.fixture
def keyless(paper: Paper) -> Paper:
    """A topic of tables without keys, and one whose messages have them."""
    for table, rows in KEYLESS.items():
        paper.add("shop.cdc", *((None, source(table), row) for row in rows))
    paper.add("shop.cdc", ({"no": 1}, source("keyed"), {"id": 3, "no": 1}))
    return paper


def keys_of(report: Report) -> dict[str, list[str]]:
    return {
        each.source.removeprefix("shop.public."): [
            change.split()[0] for change in each.changes if change.endswith(", key")
        ]
        for each in report.tables
        if each.error is None
    }


def test_a_column_is_the_key_of_all_tables_that_have_it(keyless: Paper) -> None:
    columns = [["order_id", "LINE_NO"], ["id"]]
    report = keyless.generate("shop.cdc", keys=GivenKeys(columns=columns))
    lines = ["order_id", "line_no"]
    assert keys_of(report) == {"orders": ["id"], "lines": lines, "notes": ["Id"], "keyed": ["no"]}
    (notes,) = (each for each in report.tables if each.name == "notes")
    assert notes.notes == [
        "1 row of 2 have no value of Id: they are in the change log, and not in gold"
    ]
    (clicks,) = report.failed
    assert report.text().splitlines()[-3:] == [
        "1 of 5 tables got no models:",
        f"  shop.public.clicks: {clicks.error}",
        "next: dbt build",
    ]
    assert "or --key-column or --keys for many tables" in str(clicks.error)
    # The models that are there keep their keys.
    again = keyless.generate("shop.cdc", keys=GivenKeys(columns=[["note"], ["no"], ["page"]]))
    assert keys_of(again)["clicks"] == ["page"]
    assert [each.status for each in again.tables] == ["created", *["unchanged"] * 4]


def test_tables_have_no_key_where_the_call_says_so(keyless: Paper) -> None:
    update = change("u", source("clicks"), None, {"at": "2026-01-02", "page": "/"})
    keyless.topics["shop.cdc"].append(Capture("shop.cdc").json(None, update))
    keys = GivenKeys(columns=[["id"]], keyless=True)
    report = keyless.generate("shop.cdc", keys=keys)
    assert keys_of(report) == {
        **{"orders": ["id"], "lines": ["ID"], "notes": ["Id"]},
        **{"clicks": [], "keyed": ["no"]},
    }
    model = keyless.read("silver", "clicks_changes.sql")
    assert "        keyless=true,\n" in model and " key=" not in model and "order_by" not in model
    (clicks,) = (each for each in report.tables if each.name == "clicks")
    assert [each.partition(" the row before")[0] for each in clicks.notes] == [
        "1 of its updates and deletes lack"
    ]
    (gold,) = yaml.safe_load(keyless.read("gold", "clicks.yml"))["models"]
    assert gold["data_tests"] == [
        {"unique_combination": {"arguments": {"columns": ["_row", "_copy"]}}}
    ]
    assert gold["description"].startswith("One row per row of the source that exists now")
    # Another call does not ask for a key any more.
    again = keyless.generate("shop.cdc")
    assert {each.status for each in again.tables} == {"unchanged"} and not again.failed


def test_keys_are_read_from_a_file(keyless: Paper, tmp_path: Path) -> None:
    file = tmp_path / "keys.yml"
    file.write_text("public.orders: [id]\nshop.public.lines: order_id, line_no\nusers: [id]\n")
    report = keyless.generate("shop.cdc", keys=GivenKeys(of_tables=keys_in(file)))
    assert keys_of(report) == {
        "orders": ["id"],
        "lines": ["order_id", "line_no"],
        "keyed": ["no"],
    }
    assert report.notes == ["--keys names tables that are not in the topic: users"]
    file.write_text(json.dumps({"keyed": ["nobody"], "lines": "x", "clicks": ["nothing"]}))
    wrong = keyless.generate("shop.cdc", keys=GivenKeys(of_tables=keys_in(file)))
    errors = {each.source: str(each.error) for each in wrong.failed}
    assert errors["shop.public.keyed"].startswith("--keys nobody: no such column. There are id")
    assert errors["shop.public.clicks"].startswith("--keys nothing: no such column. There are at")
    # Most got none.
    assert wrong.text().endswith("\nnext: generate again for these tables, then dbt build")
    file.write_text(json.dumps({"keyed": ["id"], "lines": "order_id"}))
    others = keyless.generate("shop.cdc", keys=GivenKeys(of_tables=keys_in(file)))
    # One is in the place of the messages' own, the other of one that was given before.
    assert 'key={"id": "int"},\n        message_key=["no"],' in keyless.read(
        "silver", "keyed_changes.sql"
    )
    assert the_table(others, "shop.public.lines").changes == [
        "~ key: order_id, line_no -> order_id"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a",
        "orders: 7",
        "orders: []",
        "7: [id]",
        "orders: [id, '']",
        "a: [",
        "\0",
        "a: [b]\na: [c]",
    ],
)
def test_a_file_of_keys_that_can_not_be_meant(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys.yml"
    file.write_text(text)
    with pytest.raises(
        GenerateError, match=r"--keys .*: expected a mapping|is not YAML: .*; expected a"
    ):
        keys_in(file)


def test_a_table_is_declared_once(paper: Paper) -> None:
    """The four files to the letter: the key's and the columns' names stand twice in all."""
    row = {"order_id": 1, "line_no": 2, "unit price": 1.5, "placed": "2026-01-01"}
    paper.add("shop.cdc", ({"order_id": 1, "line_no": 2}, source("OrderLines"), row))
    (outcome,) = paper.generate("shop.cdc").tables
    assert outcome.files == [
        "models/silver/order_lines_changes.sql",
        "models/silver/order_lines_changes.yml",
        "models/gold/order_lines.sql",
        "models/gold/order_lines.yml",
    ]
    assert (
        paper.read("silver", "order_lines_changes.sql")
        == """\
{{
    change_log(
        topic="shop\\\\.cdc",
        source_database="shop",
        source_schema="public",
        source_table="OrderLines",
        key={"order_id": "int", "line_no": "int"},
        columns={
            "unit_price": {"name": "unit price", "type": "double"},
            "placed": "string",
        },
    )
}}
"""
    )
    assert paper.read("gold", "order_lines.sql") == (
        '{{ current_state(ref("order_lines_changes")) }}\n'
    )
    assert (
        paper.read("silver", "order_lines_changes.yml")
        == """\
models:
  - name: order_lines_changes
    description: >-
      One row per snapshot, insert, update or delete of a row, and per truncate: source table
      `shop.public.OrderLines`, as Debezium ships them in the topic `shop.cdc`.
    data_tests:
      - one_change_per_position
      - no_misfits
      - no_unknown_columns
"""
    )
    assert (
        paper.read("gold", "order_lines.yml")
        == """\
models:
  - name: order_lines
    description: >-
      One row per `order_id` and `line_no` that exists now: source table `shop.public.OrderLines`,
      as Debezium ships them in the topic `shop.cdc`. The order of the log decides.
    data_tests:
      - unique_key
      - equals_refold
      - no_absent_keys
    columns:
      - name: order_id
        description: >-
          Field `order_id` of the source, which ships no schema: the type is guessed from its
          values.
        data_type: int
      - name: line_no
        description: >-
          Field `line_no` of the source, which ships no schema: the type is guessed from its values.
        data_type: int
      - name: unit_price
        description: >-
          Field `unit price` of the source, which ships no schema: the type is guessed from its
          values.
        data_type: double
      - name: placed
        description: "Field `placed` of the source, which ships no schema: text."
        data_type: string
      - name: _occurred_at
        description: "{{ doc('occurred_at') }}"
        data_type: timestamp
      - name: _max_occurred_at
        description: "{{ doc('max_occurred_at') }}"
        data_type: timestamp
      - name: _position
        description: "{{ doc('position') }}"
        data_type: >-
          struct<log_time:timestamp,topic:string,partition:int,offset:bigint,event_index:int>
"""
    )


def test_the_order_of_the_source_is_proposed_where_every_event_says_its_place(
    paper: Paper,
) -> None:
    places: dict[str, dict[str, Any]] = {
        "postgresql": {"sequence": '["1","2"]'},
        "mysql": {"file": "binlog.000001", "pos": 4, "row": 0},
        "mariadb": {"file": "binlog.000001", "pos": 4, "row": 0},
        "sqlserver": {"commit_lsn": "00000027:00000ac0:0002"},
        "oracle": {"scn": "7"},
    }
    for connector, place in places.items():
        said = source(f"of_{connector}", **place) | {"connector": connector}
        paper.add("shop.cdc", ({"id": 1}, said, {"id": 1}))
    paper.add(
        "shop.cdc",
        ({"id": 1}, source("half", sequence='["1","2"]'), {"id": 1}),
        ({"id": 2}, source("half"), {"id": 2}),
    )
    paper.generate("shop.cdc")
    for connector in places:
        order = "mysql" if connector == "mariadb" else connector
        first, second = paper.read("silver", f"of_{connector}_changes.sql").splitlines()[:2]
        assert second == "{{"
        assert first == (
            f'{{# order_by="{order}" keeps what is sent again from undoing later changes:'
            " docs/current-state.md #}"
        )
    assert "order_by" not in paper.read("silver", "half_changes.sql")

    # Once it is declared, the contract that is written has the place.
    log = paper.root / "models" / "silver" / "of_mysql_changes.sql"
    text = log.read_text()
    log.write_text(text.replace("        columns=", '        order_by="mysql",\n        columns='))
    before = paper.read("gold", "of_mysql.yml")
    told = {each.name: each for each in paper.generate("shop.cdc").tables}
    assert told["of_mysql"].status == "changed"
    (change,) = told["of_mysql"].changes
    assert change.startswith("~ _position: struct<log_time:") and "-> struct<source:" in change
    contract = paper.read("gold", "of_mysql.yml")
    assert contract == before.replace("struct<log_time:", "struct<source:string,log_time:")
    assert {each.status for each in paper.generate("shop.cdc").tables} == {"unchanged"}
    (paper.root / "models" / "gold" / "of_mysql.yml").unlink()
    paper.generate("shop.cdc")
    contract = paper.read("gold", "of_mysql.yml")
    assert "The order of the source decides." in contract
    assert "struct<source:string,log_time:timestamp" in contract.replace("\n", "")
    # And without it the former one again.
    log.write_text(text)
    paper.generate("shop.cdc")
    assert "struct<log_time:timestamp" in paper.read("gold", "of_mysql.yml").replace("\n", "")


def test_what_a_payload_does_not_name_is_null_and_not_any(paper: Paper) -> None:
    """Tables that differ in what is missing are as different as others."""
    bare = {"table": "t"}
    paper.add("one", ({"id": 1}, bare, {"id": 1}))
    paper.add("two", ({"no": 1}, {"db": "a", "table": "t"}, {"no": 1, "a": 1}))
    paper.add("two", ({"no": 1}, {"db": "a", "schema": "s", "table": "t"}, {"no": 1, "as": 1}))
    assert paper.generate("one").tables[0].status == "created"
    files = {path: path.read_text() for path in paper.root.rglob("*.sql")}
    created = paper.generate("two")
    assert [each.status for each in created.tables] == ["created", "created"]
    assert {path: path.read_text() for path in files} == files
    assert {each.status for each in paper.generate("one", "two").tables} == {"unchanged"}
    text = paper.read("silver", "a_t_changes.sql")
    assert 'source_database="a"' in text and "source_schema" not in text


def test_vitess_s_keyspace_is_the_schema(paper: Paper) -> None:
    """Two keyspaces of one topic, an empty database: two tables, their columns apart."""
    for keyspace, extra in (("commerce", "a"), ("lookup", "b")):
        block = {"connector": "vitess", "db": "", "keyspace": keyspace, "table": "t"}
        paper.add("vitess", ({"id": 1}, block, {"id": 1, extra: 1}))
    for _ in range(2):
        tables = paper.generate("vitess").tables
        assert [each.name for each in tables] == ["commerce_t", "lookup_t"]
        assert [each["name"] for each in gold_columns(paper, "commerce_t")][:3] == [
            *("id", "a", "_occurred_at")
        ]
    assert {each.status for each in tables} == {"unchanged"}
    text = paper.read("silver", "lookup_t_changes.sql")
    assert 'source_schema="lookup"' in text and "source_database" not in text


def test_topics_of_transactions_and_definitions_have_no_tables(paper: Paper) -> None:
    capture = Capture("meta")
    definition = {"source": {"db": "shop", "table": "t"}, "databaseName": "shop", "ddl": "DROP"}
    paper.topics["meta"] = [
        capture.json(None, {"status": "BEGIN", "id": "1", "ts_ms": 1, "event_count": None}),
        capture.json({"databaseName": "shop"}, {**definition, "tableChanges": []}),
    ]
    with pytest.raises(GenerateError, match="no change of any row: nothing to generate"):
        paper.generate("meta")


def test_names_do_not_depend_on_the_order_of_calls(tmp_path: Path) -> None:
    calls = ["a.t", "b.t", "again.t", "other"]
    found = []
    for number, order in enumerate((calls, calls[::-1], [calls[2], *calls[:2], calls[3]])):
        root = tmp_path / str(number)
        root.mkdir()
        paper = Paper(root)
        paper.add("a.t", ({"id": 1}, {"db": "a", "schema": "s", "table": "t"}, {"id": 1}))
        paper.add("b.t", ({"id": 1}, {"db": "b", "table": "t"}, {"id": 1}))
        # The same names on another server.
        paper.add("again.t", ({"id": 1}, {"db": "b", "table": "t"}, {"id": 1}))
        paper.add("other", ({"id": 1}, {"db": "b", "table": "u"}, {"id": 1}))
        found.append({topic: str(paper.generate(topic).tables[0].name) for topic in order})
    assert found[0] == found[1] == found[2]
    assert found[0].pop("b.t").startswith("b_t_")
    assert found[0] == {"a.t": "a_s_t", "again.t": "again_t", "other": "u"}


def test_a_log_of_several_tables_takes_the_columns_of_all(paper: Paper) -> None:
    """Asked for with a list or `*`; each of the tables is looked at once, and none is lost."""
    for shard, extra in (("s_1", "a"), ("s_2", "b")):
        paper.add("shards", ({"id": 1}, source(shard), {"id": 1, extra: "x"}))
    folder = paper.root / "models" / "silver"
    folder.mkdir(parents=True)
    (folder / "s_changes.sql").write_text(
        '{{ change_log(source_database="*", source_schema="*", source_table=["s_1", "s_2"],\n'
        '    key={"id": "int"}, columns={}) }}\n'
    )
    (outcome,) = paper.generate("shards").tables
    assert (outcome.source, outcome.name) == ("shop.public.s_1, shop.public.s_2", "s")
    assert outcome.changes == ["+ a string", "+ b string"]
    assert outcome.status == "changed"
    assert [each["name"] for each in gold_columns(paper, "s")][:4] == ["id", "_source", "a", "b"]
    assert paper.generate("shards").tables[0].status == "unchanged"


def gold_columns(paper: Paper, name: str) -> list[dict[str, Any]]:
    (model,) = yaml.safe_load(paper.read("gold", f"{name}.yml"))["models"]
    columns: list[dict[str, Any]] = model["columns"]
    return columns


@pytest.mark.parametrize(
    ("first", "follows", "guess"),
    [
        (["2026-01-01"] * types.ENOUGH_TIMES, "n/a", "date"),
        (["2026-11-21T10:00:00Z"] * types.ENOUGH_TIMES, "soon", "timestamp"),
        ([1, 2], "many", "int"),
        ([True], "maybe", "boolean"),
        ([{"a": 1}], [1], "map<string,int>"),
    ],
)
def test_a_guess_is_taken_back(paper: Paper, first: list[Any], follows: Any, guess: str) -> None:
    """Only a guess: once somebody has described the column, its type is theirs."""
    rows = [({"id": 1}, source("t"), {"id": 1, "x": value, "z": value}) for value in first]
    paper.add("t", *rows)
    paper.generate("t")
    silver = '"x": "{0}",\n            "z": "{0}",'
    assert silver.format(guess) in paper.read("silver", "t_changes.sql")
    contract = paper.root / "models" / "gold" / "t.yml"
    text = contract.read_text()
    at = text.index("description", text.index("- name: z"))
    by_hand = text[:at] + "description: What z is.\n" + text[text.index("        data_type", at) :]
    contract.write_text(by_hand)
    paper.add("t", ({"id": 2}, source("t"), {"id": 2, "x": follows, "z": follows}))
    (outcome,) = paper.generate("t").tables
    assert outcome.changes == [f"~ x: {guess} -> string"]
    taken_back, kept = outcome.notes
    assert taken_back.startswith(
        f"x was guessed to be {guess}, and has other values by now: string"
    )
    assert kept.startswith(f"z stays {guess}, although some of its values are of another type")
    _, x, z, *_ = gold_columns(paper, "t")
    assert (x["data_type"], z["data_type"]) == ("string", guess)
    assert "guessed" not in x["description"]
    assert z["description"] == "What z is."
    assert f'"x": "string",\n            "z": "{guess}"' in paper.read("silver", "t_changes.sql")
    (again,) = paper.generate("t").tables
    assert (again.status, again.notes) == ("unchanged", [kept])


def test_text_in_a_column_of_numbers_does_not_make_text_of_it(paper: Paper) -> None:
    """It is told: where the models are new, a column that holds everything is written first."""
    capture = Capture("t")

    def row(columns: list[Row], **values: Any) -> Line:
        key = key_of(columns[:1], {"id": values["id"]})
        return capture.json(key, with_schema(columns, change("c", source("t"), None, values)))

    first = [column("id", "int64"), column("n", "int32"), decimal_column("kg", 4, 2)]
    wider = [*first[:2], decimal_column("kg", 6, 2)]
    paper.topics["t"] = [row(first, id=1, n=1, kg=unscaled("1.50", 2))]
    paper.generate("t")
    paper.topics["t"].append(row(wider, id="seven", n="many", kg="!"))
    (outcome,) = paper.generate("t").tables
    assert outcome.changes == ["~ kg: decimal(4,2) -> decimal(6,2)"]
    stays = "although some of its values are of another type (what can't be cast is in _misfits)"
    assert outcome.notes == [
        f"{name}, {stays}; string would hold them as they are"
        for name in ("id stays bigint", "n stays int", "kg stays decimal(6,2)")
    ]

    shutil.rmtree(paper.root / "models")
    (outcome,) = paper.generate("t").tables
    assert outcome.changes == ["id string, key", "n string", "kg string"]
    assert [each.partition(". ")[0] for each in outcome.notes] == [
        f"{name} is a string, because some of its values are text, though the source declares {its}"
        for name, its in (("id", "bigint"), ("n", "int"), ("kg", "decimal(6,2)"))
    ]


def test_a_guess_of_what_a_bin_holds_is_taken_back(paper: Paper) -> None:
    """Aerospike names a list, and not what is in it."""
    capture = Capture("aero.msgpack")

    def write(number: int, value: list[Any]) -> Line:
        key = ["game", "players", bytes([number]) * 20, None]
        return capture.raw(None, pack([1, 1, [key, 1, 0, NOW_MS, [["x", 20, 0, value]]]]))

    paper.topics[capture.topic] = [write(1, [1, 2])]
    paper.generate(capture.topic)
    assert gold_columns(paper, "players")[3]["description"] == (
        "Field `x` of the source, declared as LIST: the type is guessed from its values."
    )
    paper.topics[capture.topic].append(write(2, [1, "a"]))
    assert paper.generate(capture.topic).tables[0].changes == ["~ x: array<int> -> string"]
    assert gold_columns(paper, "players")[3]["description"] == (
        "Field `x` of the source, declared as LIST."
    )


def test_parts_of_documents_are_listed_and_their_columns_left_alone(paper: Paper) -> None:
    capture = Capture("mongo")

    def send(op: str, **fields: Any) -> Line:
        block = {"connector": "mongodb", "db": "m", "collection": "t", "ts_ms": NOW_MS}
        return capture.json({"id": "1"}, {"op": op, "source": block, **fields})

    updated = {"updatedFields": '{"a.b":1,"c":2}', "removedFields": ["d.0"]}
    paper.topics["mongo"] = [
        send("c", after='{"_id":1,"a":{"b":0,"z":"x"},"at":{"$date":0}}'),
        send("u", updateDescription=updated),
    ]
    (outcome,) = paper.generate("mongo").tables
    assert outcome.changes == ["_id int, key", "a string", "at timestamp", "c int"]
    assert "inside a field: there are a.b, d.0. Gold keeps" in outcome.notes[0]
    assert "declared as `date`" in str(paper.read("gold", "t.yml"))
    model = paper.root / "models" / "silver" / "t_changes.sql"
    by_hand = model.read_text().replace('"a": "string"', '"b": {"path": "a.b", "type": "string"}')
    model.write_text(by_hand)
    assert paper.generate("mongo").tables[0].changes == []
    model.write_text(by_hand.replace('"c": "int"', '"doc": {"path": "$", "type": "string"}'))
    assert paper.generate("mongo").tables[0].changes == []
    model.write_text(by_hand.replace('"c": "int",', ""))
    assert paper.generate("mongo").tables[0].changes == ["+ c int"]


def test_change_streams_name_collections_and_documents_alone_none(paper: Paper) -> None:
    lines = change_streams()
    for topic in ("streams.pets", "streams.toys"):
        paper.topics[topic] = [each for each in lines if each["topic"] == topic]
    (pets,) = paper.generate("streams.pets").tables
    assert (pets.source, pets.changes) == (
        "mg.pets",
        ["_id bigint, key", "name string", "born timestamp", "kin array<int>", "kg double"],
    )
    (toys,) = paper.generate("streams.toys").tables
    assert (toys.source, toys.name) == ("(no table)", "toys")
    assert toys.changes == ["_id string, key", "price decimal(9,2)"]
    assert "MongoDB's Kafka connector ships" in paper.read("silver", "toys_changes.yml")


def test_columns_beside_rows_are_left_alone(paper: Paper) -> None:
    paper.add("t", ({"id": 1}, source("t"), {"id": 1, "a": 1}))
    paper.generate("t")
    model = paper.root / "models" / "silver" / "t_changes.sql"
    beside = """\
            "lsn": {"type": "bigint", "from": "metadata", "path": "source.lsn"},
            "a_2": {
                "type": "int",
                "from": "metadata",
                "path": "b",
            },
            "trace": {"type": "string", "from": "headers", "path": "a.b"},
"""
    last = '            "a": "int",\n'
    assert last in model.read_text()
    model.write_text(model.read_text().replace(last, last + beside))
    assert paper.generate("t").tables[0].changes == []
    # Fields of rows by the names of those, of what they are from, and of their paths.
    row = {"id": 1, "a": 2**40, "lsn": 1, "source": "x", "b": 1, "A": "x"}
    paper.add("t", ({"id": 1}, source("t"), row))
    assert paper.generate("t").tables[0].changes == [
        *("+ lsn_2 int (from lsn)", "+ source string", "+ b int", "+ A_3 string (from A)"),
        "~ a: int -> bigint",
    ]
    assert '"a": "bigint",\n' + beside in model.read_text()
    assert paper.generate("t").tables[0].status == "unchanged"
    # What is missing beside it is written with them.
    contract = paper.root / "models" / "gold" / "t.yml"
    contract.unlink()
    paper.generate("t")
    described = {each["name"]: each["description"] for each in gold_columns(paper, "t")}
    assert described["lsn"] == "`source.lsn` of what the source said beside the row."
    assert described["trace"] == "The message's Kafka header `a.b`."
    # Of another key, too.
    paper.generate("t", keys=GivenKeys(key=("b",)))
    assert beside in model.read_text()
    assert 'key={"b": "int"}' in model.read_text()


def test_bytes_that_were_taken_for_text_are_bytes_again(paper: Paper) -> None:
    capture = Capture("lindorm_hbase")

    def put(row: bytes, value: bytes) -> Line:
        after = {"ROW": b64(row), "f": b64(value)}
        table = {"db": "ld", "namespace": "default", "table": "cells"}
        return capture.json(None, {"schema": {}, "payload": change("c", table, None, after)})

    paper.topics[capture.topic] = [put(b"a", b"text")]
    paper.generate(capture.topic)
    assert '"f": {"name": "f", "type": "string", "encoding": "hbase"}' in paper.read(
        "silver", "cells_changes.sql"
    )
    paper.topics[capture.topic].append(put(b"b", b"\xff\0\0\1"))
    (outcome,) = paper.generate(capture.topic).tables
    assert outcome.changes == ["~ f: string -> binary"]
    assert outcome.notes[0].startswith("f was taken for text, and has binary values by now.")
    assert '"type": "binary", "encoding": "hbase"' in paper.read("silver", "cells_changes.sql")
    column = gold_columns(paper, "cells")[1]
    assert column["description"] == "HBase value `f`, the bytes as they are stored."
    assert paper.generate(capture.topic).tables[0].status == "unchanged"


def test_gold_that_chooses_its_columns_keeps_its_choice(paper: Paper) -> None:
    paper.add("t", ({"id": 1}, source("t"), {"id": 1, "a": 1}))
    paper.generate("t")
    gold = paper.root / "models" / "gold" / "t.sql"
    gold.write_text('{{ current_state(ref("t_changes"), columns=["a"]) }}\n')
    contract = paper.read("gold", "t.yml")
    paper.add("t", ({"id": 2}, source("t"), {"id": 2, "a": 1, "b": 1}))
    (outcome,) = paper.generate("t").tables
    assert outcome.changes == ["+ b int"]
    assert outcome.notes == ["models/gold/t.sql chooses its columns: b is in t_changes only"]
    assert paper.read("gold", "t.yml") == contract


def test_a_description_that_is_no_yaml_is_named(paper: Paper) -> None:
    paper.add("t", ({"id": 1}, source("t"), {"id": 1}))
    paper.generate("t")
    contract = paper.root / "models" / "gold" / "t.yml"
    for broken in ("models: [", "models: []\nmodels: []  # t\n"):
        contract.write_text(f"# of t\n{broken}")
        with pytest.raises(GenerateError, match=r"models/gold/t\.yml is not YAML: while"):
            paper.generate("t")
    assert contract.read_text().endswith(broken)


YUGABYTE: Final[Row] = {"connector": "yugabytedb", "db": "y", "schema": "public", "table": "cells"}


@pytest.mark.parametrize("has_schema", [True, False])
def test_rows_of_cells_have_the_types_of_their_values(paper: Paper, has_schema: bool) -> None:
    capture = Capture("cells")
    at = "io.debezium.time.MicroTimestamp"
    values = [column("id", "int32"), column("a", "int64"), column("at", "int64", at)]
    columns = [
        column(
            each["field"],
            "struct",
            fields=[{**each, "field": "value"}, column("set", "boolean")],
        )
        for each in values
    ]
    lines = []
    for after in (
        {"id": cell(1), "a": cell(2), "at": cell(0)},
        {"id": cell(1), "a": None, "at": cell(None)},
    ):
        key, payload = {"id": after["id"]}, change("u", YUGABYTE, None, after)
        if has_schema:
            lines.append(capture.json(key_of(columns, key), with_schema(columns, payload)))
        else:
            lines.append(capture.json(key, payload))
    paper.topics["cells"] = lines
    (outcome,) = paper.generate("cells").tables
    types = ["id int, key", "a bigint", "at timestamp_ntz"]
    assert outcome.changes == (types if has_schema else ["id int, key", "a int", "at int"])
    assert "some changes leave a unchanged" in outcome.notes[0]
    # What is said of Cassandra's rows beside their columns.
    assert paper.generate("cells").tables[0].changes == []


def test_cassandra_s_bounds_and_scylla_s_cells_are_no_columns(paper: Paper) -> None:
    bound = [column("method", "string"), column("values", "array", items=column("x", "string"))]
    of_cassandra = [
        *(
            column(
                name,
                "struct",
                "cell_value",
                fields=[
                    column("value", kind),
                    column("deletion_ts", "int64"),
                    column("set", "boolean"),
                ],
            )
            for name, kind in (("id", "int32"), ("a", "string"))
        ),
        *(column(name, "struct", name, fields=bound) for name in ("_range_start", "_range_end")),
    ]
    row: Row = {"id": cell(1, deletion_ts=None), "a": None}
    row |= {"_range_start": None, "_range_end": None}
    block = {"connector": "cassandra", "db": "NULL", "keyspace": "shop", "table": "users"}
    key = {"schema": {"type": "struct", "fields": [column("id", "int32")]}, "payload": {"id": 1}}
    payload = with_schema(of_cassandra, change("i", block, None, row))
    of_scylla = [
        column("id", "int32"),
        column("a", "struct", "s.ks.t.a.Cell", fields=[column("value", "int64")]),
    ]
    other = {"connector": "scylla", "db": "ks", "keyspace_name": "ks", "table_name": "t"}
    changed = with_schema(of_scylla, change("c", other, None, {"id": 1, "a": {"value": 2}}))
    paper.topics["cells"] = [
        Capture("cells").json(key, payload),
        Capture("cells").json(key, changed),
    ]
    outcomes = paper.generate("cells").tables
    assert {each.source: each.changes for each in outcomes} == {
        "shop.users": ["id int, key", "a string"],
        "ks.ks.t": ["id int, key", "a bigint"],
    }


def canal_row(mysql_type: str, sql_type: int, value: str) -> Row:
    return {
        "data": [{"id": "1", "state": value}],
        "database": "shop",
        "table": "orders",
        "type": "INSERT",
        "pkNames": ["id"],
        "mysqlType": {"id": "int", "state": mysql_type},
        "sqlType": {"id": 4, "state": sql_type},
    }


@pytest.mark.parametrize(
    ("mysql_type", "sql_type", "told"),
    [
        ("enum('new','done')", 4, None),
        ("enum('7','8')", 4, None),
        (
            "enum('1','2')",
            4,
            "labels of state are digits: values that are digits are taken for the",
        ),
        ("enum('1','2')", 12, "labels of state are digits, and whether its values are labels or"),
        ("set('a','3')", 12, "labels of state are digits, and whether"),
        ("enum", 4, "state has the places of labels, which the messages don't list"),
        ("enum", 12, None),
    ],
)
def test_what_is_not_known_of_labels_is_told(
    paper: Paper, mysql_type: str, sql_type: int, told: str | None
) -> None:
    lines = [Capture("canal.shop").json(None, canal_row(mysql_type, sql_type, "1"))]
    paper.topics["canal.shop"] = lines
    for status in ("created", "unchanged"):
        (outcome,) = paper.generate("canal.shop").tables
        assert outcome.status == status
        assert outcome.notes == [] if told is None else outcome.notes[0].startswith(told)
    assert outcome.changes == []
    assert '"state": "string"' in paper.read("silver", "orders_changes.sql")


def test_payloads_tell_dialects_apart() -> None:
    arcion = {"connector": "MYSQL", "db": "d", "schema": None, "table": "t", "ts_ms": None}
    lindorm_block = {"db": "ld", "namespace": "default", "table": "t", "version": "v1.0"}
    of_dialect = {
        "debezium_json": source("t"),
        "arcion_json": arcion,
        "lindorm_json": lindorm_block,
    }
    payloads = {
        name: (None, dumps(change("c", block, None, {"id": 1})))
        for name, block in of_dialect.items()
    }
    for name, payload in payloads.items():
        assert scan.format_of([payload]) == name
    unwrapped = (b'{"id":1}', b'{"id":1,"n":2}')
    assert scan.format_of([unwrapped]) == "debezium_unwrapped_json"
    assert scan.suggestion_of([unwrapped]) == (
        "debezium_unwrapped_json",
        "as no other format decodes the 1 message read",
    )
    assert scan.suggestion_of([payloads["arcion_json"]] * 2) == (
        "arcion_json",
        "according to the source blocks of the 2 messages read",
    )
    cut = (None, payloads["debezium_json"][1][:40])
    assert scan.suggestion_of([cut, payloads["debezium_json"], payloads["debezium_json"]]) == (
        "debezium_json",
        "according to the source blocks of 2 of the 3 messages read; the others show no format",
    )
    assert scan.suggestion_of([unwrapped, cut, unwrapped]) == (
        "debezium_unwrapped_json",
        "as no other format decodes 2 of the 3 messages read; the others show no format",
    )
    assert scan.format_of([cut, payloads["debezium_json"]]) is None
    assert scan.format_of([cut]) is None
    assert scan.format_of([(None, unwrapped[1])]) is None
    assert scan.format_of(list(payloads.values())) is None
    assert scan.format_of([]) is None
    enriched = {"after": {"id": 1}, "op": "c", "source": {"database_name": "d", "table_name": "t"}}
    assert scan.format_of([(b'{"id":1}', dumps(enriched))]) == "debezium_json"


# --- Editing --------------------------------------------------------------------------------------

BY_HAND: Final = """{# change_log(source_table="not this one") #}
{{ config(tags=["x"]) }} {%- set unused = "{{ change_log(" %}

{{-
    change_log(source_table="t", topic="a\\\\.b",
        key={"id": "int"},
        columns={
            "größe": {"name": "f}}", "type": "int"},  "b":"decimal( 5, 2 )"
        }
    )
-}}
"""


def parsed(text: str, tmp_path: Path) -> sources.ChangeLog:
    path = tmp_path / "t_changes.sql"
    path.write_text(text)
    return sources.read_models([path]).logs[0]


def test_a_model_by_hand_is_read(tmp_path: Path) -> None:
    log = parsed(BY_HAND, tmp_path)
    assert (log.model, log.topic) == ("t_changes", "a\\.b")
    assert log.source == sources.Source(None, None, "t")
    assert log.reads(TableId(None, None, "t"), ["a.b"])
    assert not log.reads(TableId(None, None, "t"), ["a_b"])
    assert not log.reads(TableId("any", None, "t"), ["a.b"])
    assert log.key == ["id"]
    assert {each.column: (each.field, each.type) for each in log.entries.values()} == {
        "id": ("id", "int"),
        "größe": ("f}}", "int"),
        "b": ("b", "decimal( 5, 2 )"),
    }


def test_a_model_by_hand_is_edited_in_place(tmp_path: Path) -> None:
    log = parsed(BY_HAND, tmp_path)
    text = edit.edited(
        BY_HAND,
        [
            edit.retype(log.entries["größe"].type_at, "bigint"),
            edit.more_entries(log.call, [models.Spec("c", "C c", "date", "")]),
        ],
    )
    assert text == BY_HAND.replace('"type": "int"', '"type": "bigint"').replace(
        '"decimal( 5, 2 )"\n',
        '"decimal( 5, 2 )",\n            "c": {"name": "C c", "type": "date"},\n',
    )
    assert parsed(text, tmp_path).entries["c"].field == "C c"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("columns={}", 'columns={\n    "c": "int",\n}'),
        ('columns={"a": "int"}', 'columns={"a": "int", "c": "int"}'),
        ('columns={"a": "int",}', 'columns={"a": "int", "c": "int",}'),
    ],
)
def test_short_dicts_grow(tmp_path: Path, columns: str, expected: str) -> None:
    text = f'{{{{ change_log(source_table="t", key={{"k": "int"}}, {columns}) }}}}'
    log = parsed(text, tmp_path)
    piece = edit.more_entries(log.call, [models.Spec("c", "c", "int", "")])
    assert edit.edited(text, [piece]) == text.replace(columns, expected)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ('change_log(source_table=var("t"), key={"k": "int"}, columns={})', "than literals"),
        ('change_log(source_table="t" ~ "u", columns={})', "than literals"),
        ('change_log(source_tabel="t", columns={})', "no argument source_tabel of change_log"),
        ('change_log("t", columns={})', "its arguments have no names"),
        (
            'change_log(source_table="t", columns={"a": {"type": "int", "nmae": "b"}})',
            "its column a has an unknown nmae: a column is a type, or has",
        ),
        ('change_log(source_table="t", columns={"a": {"name": "b"}})', "column a has no type"),
        (
            'current_state(changes=ref("t_changes"), key=["a"], columns=["b"])',
            "it is of the former kind, with key and columns in gold too: docs/add-a-table.md",
        ),
        ('current_state("t_changes")', "its argument is not a ref of a change log"),
    ],
)
def test_a_model_that_generate_does_not_understand_is_left_alone(
    tmp_path: Path, call: str, reason: str
) -> None:
    path = tmp_path / "t_changes.sql"
    path.write_text(f"{{{{ {call} }}}}")
    found = sources.read_models([path])
    assert (found.logs, found.gold, list(found.unreadable)) == ([], [], [path])
    assert reason in found.unreadable[path]


def test_a_contract_by_hand_grows_in_place() -> None:
    text = (
        "# A file by hand.\n"
        "models:\n"
        "- name: other\n"
        "  config: {enabled: null}\n"
        "- name: t\n"
        "  columns:\n"
        "  - name: id   # the key\n"
        "    data_tests: [not_null]\n"
        "    data_type: int # whole\n"
        "\n"
        "  # The end.\n"
        "  - {name: _occurred_at, data_type: timestamp}\n"
        "\n"
        "unit_tests: []\n"
    )
    added = [models.Spec("c", "c", "date", "C."), models.Spec("order", "order", "int", "O: it.")]
    changed = edit.described(
        text, "t", added, ["id"], [models.Spec("id", "id", "decimal(5,2)", "Not taken.")], []
    )
    assert changed == text.replace(
        "data_type: int # whole\n",
        'data_type: "decimal(5,2)" # whole\n'
        "  - name: c\n"
        "    description: C.\n"
        "    data_type: date\n"
        "  - name: order\n"
        '    description: "O: it."\n'
        "    data_type: int\n"
        "    quote: true\n",
    )
    at_the_end = edit.described(text, "t", added[:1], ["_occurred_at"], [], [])
    assert at_the_end == text.replace(
        "timestamp}\n", "timestamp}\n  - name: c\n    description: C.\n    data_type: date\n"
    )
    for nobody in ("nobody", "other"):
        with pytest.raises(LookupError):
            edit.described(text, nobody, added, [], [], [])


@pytest.mark.parametrize(
    "text",
    [
        "vars:\n  # The list.\n  topics: []  # none yet\n  captures: []\n",
        "vars:\n  topics:\n    # One.\n    - { topic: a, format: x } # it\n\n  # Two.\n  a: []\n",
        "vars:\n  topics:\n  - topic: a\n    format: x\n",
        "vars:\n  topics:\n  - topic: a\n    format: >-\n      x\n\n  # Two.\n  as_of: null\n",
        "vars:\n  topics:\n",
        "---\nvars:\n    topics: [{topic: a, format: x}]\n    'b':   ~\n",
    ],
)
def test_a_topic_is_added_to_the_project_file(text: str) -> None:
    changed = edit.with_topics(text, {"t.1": "debezium_json"})
    before = yaml.safe_load(text)["vars"]
    after = yaml.safe_load(changed)["vars"]
    entry = {"topic": "t.1", "format": "debezium_json"}
    assert after == {**before, "topics": [*(before["topics"] or []), entry]}
    # Every line is there still, but the one that held an empty or a short list.
    lines = [line for line in text.splitlines() if not line.strip().startswith("topics: [")]
    rest = iter(changed.splitlines())
    assert all(line in rest for line in lines), changed
    assert re.findall("#.*", changed) == re.findall("#.*", text)
    assert changed.index("t.1") < changed.index("Two") if "Two" in changed else True


def test_a_topic_that_captures_bring_is_added_so() -> None:
    changed = edit.with_topics("vars: {topics: []}\n", {"t": "debezium_json"}, from_kafka=False)
    (entry,) = yaml.safe_load(changed)["vars"]["topics"]
    assert entry == {"topic": "t", "format": "debezium_json", "kafka": False}


def test_a_project_without_topics_is_told_so() -> None:
    with pytest.raises(
        LakehouseError, match=r"no list vars\.topics: add it by hand, with {topic: t"
    ):
        edit.with_topics("vars: {}\n", {"t": "debezium_json"})


@pytest.mark.parametrize("path", ["dbt_project.yml", "shared/models/silver/other_events.yml"])
def test_the_project_s_own_files_keep_every_line(path: str) -> None:
    text = (ROOT / path).read_text()
    assert documents.changed(text, lambda document: None) == text


@pytest.mark.parametrize(
    "text", ["a: b", "yes", "- x", "`x` y", "#", "a, b", "{{ x }}", "é", "x\ny"]
)
def test_descriptions_and_names_are_read_back(text: str) -> None:
    name = text.replace("`", "")
    specs = [models.Spec("id", "id", "int", ""), models.Spec(name, text, "int", text)]
    table = models.GeneratedTable("t", TableId(None, None, "t"), ["t"], [], specs[:1], specs[1:])
    (model,) = yaml.safe_load(models.gold_yml(table))["models"]
    assert model["columns"][1]["name"] == name
    # A description is one line, and no Jinja.
    expected = text.replace("{{", "{ {").replace("}}", "} }").replace("\n", " ")
    assert model["columns"][1]["description"] == expected
