"""Payloads of the Debezium family that are small and want to become large, or to take long: each
makes one of about so many bytes.
"""

import base64
import json
import random
from collections.abc import Callable
from typing import Any, Final

Make = Callable[[int], bytes]

_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_VARIABLE: Final = {
    "type": "struct",
    "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}],
}


def time(name: str, kind: str = "int64") -> dict[str, Any]:
    return {"type": kind, "name": f"io.debezium.time.{name}"}


def decimal(scale: int) -> dict[str, Any]:
    return {"type": "bytes", "name": _DECIMAL, "parameters": {"scale": str(scale)}}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def map_of(keys: Any, values: Any) -> dict[str, Any]:
    return {"type": "map", "keys": keys, "values": values}


def struct_of(declared: dict[str, Any], fields: int) -> dict[str, Any]:
    """Of so many fields that are declared alike."""
    return {
        "type": "struct",
        "fields": [declared | {"field": f"{number:x}"} for number in range(fields)],
    }


def message(columns: dict[str, Any], image: str) -> bytes:
    """An insert of that image, whose columns are declared."""
    fields = [declared | {"field": name} for name, declared in columns.items()]
    row = {"type": "struct", "field": "after", "fields": fields}
    schema = json.dumps({"type": "struct", "fields": [row]}, separators=(",", ":"))
    return f'{{"schema":{schema},"payload":{{"op":"c","after":{image}}}}}'.encode()


def many(item: str, size: int) -> str:
    return f"[{','.join([item] * (size // (len(item.encode()) + 1)))}]"


def listed(declared: Any, item: str) -> Make:
    """A column with an array of that over and over."""
    return lambda size: message({"c": array(declared)}, f'{{"c":{many(item, size)}}}')


def behind_a_name(declared: Any, item: str, name: str = "n") -> Make:
    """The same in a map, behind a name that is half of the payload."""

    def make(size: int) -> bytes:
        long = name * (size // 2 // len(json.loads(f'"{name}"').encode()))
        image = f'{{"c":{{"{long}":{many(item, size // 2)}}}}}'
        return message({"c": map_of({"type": "string"}, array(declared))}, image)

    return make


def deep_names(size: int) -> bytes:
    """The names of the path are half of the payload, a part of it at each level."""
    name = "n" * (size // 240)
    declared, image = array(time("Date", "int32")), many('"x"', size // 4)
    for _ in range(60):
        declared = {"type": "struct", "fields": [declared | {"field": name}]}
        image = f'{{"{name}":{image}}}'
    return message({"c": declared}, f'{{"c":{image}}}')


def columns(declared: Any, value: str) -> Make:
    """Many columns, each declared."""

    def make(size: int) -> bytes:
        each = len(json.dumps(declared)) + len(value) + 30
        names = [f"{number:x}" for number in range(size // each)]
        image = ",".join(f'"{name}":{value}' for name in names)
        return message(dict.fromkeys(names, declared), f"{{{image}}}")

    return make


def undeclared(item: str) -> Make:
    """Without a schema block."""
    return lambda size: f'{{"op":"c","after":{{"c":{many(item, size)}}}}}'.encode()


def schema(block: str) -> bytes:
    return f'{{"schema":{block},"payload":{{"op":"c","after":{{"c":1}}}}}}'.encode()


def fields(field: Callable[[int], str], each: int) -> Make:
    def make(size: int) -> bytes:
        declared = ",".join(map(field, range(size // each)))
        return schema(f'{{"type":"struct","fields":[{declared}]}}')

    return make


def one_decimal(size: int) -> bytes:
    unscaled = base64.b64encode(random.Random(size).randbytes(min(size * 3 // 4, 65_536)))
    return message({"c": decimal(2)}, f'{{"c":"{unscaled.decode()}"}}')


_DATE: Final = time("Date", "int32")
_ZONED: Final = time("ZonedTimestamp", "string")
_OTHER_OFFSET: Final = '"2026-01-01T00:00:00+01:00"'


def document(item: str) -> Make:
    """MongoDB's, with an array of that over and over."""
    return lambda size: of_mongodb("c", after=f'{{"_id":1,"c":{many(item, size)}}}')


def of_mongodb(op: str, **fields: Any) -> bytes:
    envelope = {"op": op, "source": {"collection": "c"}, **fields}
    return json.dumps(envelope, separators=(",", ":")).encode()


def update(path: str, size: int) -> bytes:
    """One of MongoDB's that changes such a path, with a number in it, over and over."""
    paths = (path.format(number) for number in range(size // (len(path) + 6)))
    updated = ",".join(f'"{each}":1' for each in paths)
    before = '{"_id":1,"a":[],"b":{}}'
    return of_mongodb("u", before=before, updateDescription={"updatedFields": f"{{{updated}}}"})


BOMBS: Final[dict[str, Make]] = {
    "dates of MongoDB": document('{"$date":0}'),
    "keys of MongoDB that plain JSON has not": document('{"$undefined":true},{"$minKey":1}'),
    "numbers of MongoDB that are no JSON": document("NaN"),
    "documents of MongoDB": document("{}"),
    "deep paths of MongoDB": lambda size: update("{}" + ".b" * 90, size),
    "elements of MongoDB": lambda size: update("a.{}", size),
    "decimals of a large scale": listed(decimal(16_000), '"AQ=="'),
    "decimals of a large scale as numbers": listed(decimal(16_000), "1"),
    "decimals of a large exponent": listed(decimal(0), "1e16000"),
    "decimals that bring a scale": listed(_VARIABLE, '{"scale":16000,"value":"AQ=="}'),
    "columns of a large scale": columns(decimal(16_000), '"AQ=="'),
    "a map of decimals of a large scale": lambda size: message(
        {"c": map_of(decimal(16_000), {"type": "int32"})},
        f'{{"c":{many("[1,1]", size)}}}',
    ),
    "a decimal of 64 KB": one_decimal,
    "decimals of 2 KB": listed(decimal(2), f'"{"QUJD" * 680}"'),
    "a decimal of many digits": lambda size: message({"c": decimal(2)}, f'{{"c":{"9" * size}}}'),
    "integers behind a name": behind_a_name({"type": "int32"}, "1"),
    "misfits behind a name": behind_a_name({"type": "int32"}, '""'),
    "misfits behind a wide name": behind_a_name({"type": "int32"}, '""', "\U0001f600"),
    "misfits behind an escaped name": behind_a_name({"type": "int32"}, '""', "\\u0001"),
    "dates behind a name": behind_a_name(_DATE, "0"),
    "dates as text behind a name": behind_a_name(_DATE, '"2026-01-01"'),
    "instants behind a name": behind_a_name(_ZONED, _OTHER_OFFSET),
    "misfits behind deep names": deep_names,
    "misfits": listed({"type": "int32"}, '""'),
    "texts that are numbers": listed({"type": "string"}, "1"),
    "instants with other offsets": listed(_ZONED, _OTHER_OFFSET),
    "times": listed(time("MicroTime"), "0"),
    "durations": listed(time("NanoDuration"), "0"),
    "a long duration": lambda size: message(
        {"c": time("MicroDuration")}, f'{{"c":"PT{"1S" * (size // 2)}x"}}'
    ),
    "a long period": lambda size: message(
        {"c": time("Interval", "string")}, f'{{"c":"P{"1D" * (size // 2)}x"}}'
    ),
    "days that there are not": listed(_DATE, '"2026-02-31"'),
    "pairs": listed(map_of({"type": "int32"}, {"type": "int32"}), "[[1,1]]"),
    "pairs that are none": listed(map_of({"type": "int32"}, {"type": "int32"}), "[1]"),
    "names that are keys": lambda size: message(
        {"c": map_of(_DATE, {"type": "int32"})},
        f'{{"c":{{{",".join(f""""{number}":1""" for number in range(size // 9))}}}}}',
    ),
    "names that become one": lambda size: message(
        {"c": map_of({"type": "int32"}, {"type": "int32"})},
        f'{{"c":{{{",".join(f""""{number:0{number}}":1""" for number in range(1, 18))}}}}}',
    ),
    "structs that lack most fields": lambda size: message(
        {"c": array(struct_of({"type": "int32"}, size // 68))}, f'{{"c":{many("{}", size // 2)}}}'
    ),
    "structs that lack most parts": lambda size: message(
        {"c": array(struct_of(array({}), size // 94))}, f'{{"c":{many("{}", size // 2)}}}'
    ),
    "structs that are none": listed({"type": "struct", "fields": []}, "1"),
    "empty objects": undeclared("{}"),
    "empty arrays": undeclared("[]"),
    "small objects": undeclared('{"":0}'),
    "objects in objects": undeclared('{"":{"":{"":0}}}'),
    "a name twice": undeclared('{"":0,"":0}'),
    "numbers with an exponent": undeclared("1e1"),
    "long integers": undeclared("9" * 5000),
    "blanks": lambda size: b'{"op":"c","after":{"c":[' + b" " * size + b"1 ]}}",
    "fields": fields(lambda number: f'{{"field":"{number:x}"}}', 17),
    "fields of arrays": fields(lambda number: f'{{"type":"array","field":"{number:x}"}}', 30),
    "fields that are none": fields(lambda number: "{}", 3),
    "a schema block of arrays": lambda size: schema(many("[]", size)),
    "parameters": lambda size: schema(f'{{"type":"struct","x":{many("{}", size)}}}'),
    "objects that don't end": lambda size: b"[" + b"{}," * (size // 3),
    "arrays that don't end": lambda size: b'{"op":[' + b"[]," * (size // 3),
    "numbers that don't end": lambda size: b'{"op":[' + b"1," * (size // 2),
    "names that don't end": lambda size: b"{" + b'"":{},' * (size // 6),
    "texts that don't end": lambda size: b"[" + b'"\\ud83d\\ude00",' * (size // 15),
    "brackets that don't end": lambda size: b"[" + (b"[" * 240 + b"]" * 240 + b",") * (size // 481),
    "arrays in arrays that don't end": lambda size: b"[" + b"[[[[1]]]]," * (size // 10),
    "a payload that doesn't end": lambda size: listed(_DATE, "0")(size)[:-2],
    "brackets": lambda size: b"[" * size,
    "quotes": lambda size: b'{"op":"' + b'\\"' * (size // 2) + b'"}',
    "many prefixes": lambda size: b'{"schema":' * (size // 10) + b',"payload":',
}


def as_key(bomb: bytes) -> tuple[bytes, bytes]:
    """A message whose key is what otherwise is the row image."""
    row = bomb.replace(b'"fields":[{"type":"struct","field":"after","fields":', b'"fields":', 1)
    row = row.replace(b"]}]},", b"]},", 1).replace(b'{"op":"c","after":', b"", 1)
    return row.removesuffix(b"}"), b'{"op":"c","after":{"c":1}}'
