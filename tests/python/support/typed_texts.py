"""Texts that are values of declared types, or nearly: what no clean generator makes, for typing in
Python and by Spark to be held against each other.
"""

import json
import random
from base64 import b64encode
from collections.abc import Callable
from typing import Final

TYPES: Final = (
    "string",
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(9,2)",
    "decimal(18,2)",
    "decimal(38,18)",
    "decimal(38,0)",
    "decimal(4,4)",
    "decimal",
    "date",
    "timestamp",
    "timestamp_ntz",
    "binary",
    "array<string>",
    "array<int>",
    "array<double>",
    "array<timestamp>",
    "map<string,string>",
    "map<string,decimal(9,2)>",
    "map<string,date>",
)
"""Types to try, one of each kind at least."""

_BLANKS: Final = " \t\n\r\x0b\x0c\x00\x1c\x1f\x7f\x85\xa0\u2003\u2028\u2029\ufeff"
_ENDS: Final[list[str]] = [*_BLANKS, "\r\n", "\n\n", "\n\r"]
_DIGITS: Final = "\u0663\u0966\uff11\U0001d7d8"
_INTEGERS: Final = [
    sign * ((1 << bits) + more)
    for bits in (0, 7, 8, 15, 16, 31, 32, 63, 64)
    for more in (-2, -1, 0, 1)
    for sign in (1, -1)
]


def _digits(rng: random.Random, most: int) -> str:
    count = rng.choice((0, 1, 2, 3, 5, 8, 9, 10, 16, 17, 18, 19, 37, 38, 39, 40, 60))
    return "".join(rng.choices("0123456789", k=min(count, most)))


def _zeros(rng: random.Random) -> str:
    return "0" * rng.choice((0, 0, 0, 1, 2, 20, 40))


def _integer(rng: random.Random) -> str:
    if rng.random() < 0.4:
        return str(rng.choice(_INTEGERS))
    sign = rng.choice(("", "", "-", "+"))
    return sign + _zeros(rng) + _digits(rng, rng.choice((3, 6, 12, 20, 60)))


def _number(rng: random.Random) -> str:
    text = rng.choice(("", "", "", "-", "+")) + _zeros(rng) + _digits(rng, rng.choice((3, 20, 60)))
    if rng.random() < 0.7:
        text += "." + _zeros(rng) + _digits(rng, rng.choice((2, 4, 20, 60))) + _zeros(rng)
    if rng.random() < 0.4:
        exponent = rng.choice((0, 1, 2, 3, 10, 18, 37, 38, 39, 45, 46, 308, 309, 324, 999, 1000))
        text += rng.choice("eE") + rng.choice(("", "-", "+")) + _zeros(rng) + str(exponent)
    return text


def _float(rng: random.Random) -> str:
    kind = rng.randrange(8)
    if kind == 0:
        words = ("NaN", "Infinity", "inf", "nan", "INF", "infinit", "nano", "infinity")
        return rng.choice(("", "-", "+")) + rng.choice(words)
    if kind == 1:
        digits = "".join(rng.choices("0123456789abcdefABCDEF", k=rng.choice((0, 1, 6, 7, 14, 18))))
        point = rng.randrange(len(digits) + 1)
        text = (
            rng.choice(("0x", "0X", "-0x"))
            + digits[:point]
            + rng.choice((".", ""))
            + digits[point:]
        )
        exponents = (0, 1, -149, -150, 127, 128, -1074, -1075, 1023, 1024, 10**12)
        return (
            text + rng.choice(("p", "P")) + str(rng.choice(exponents)) + rng.choice(("", "", "d"))
        )
    if kind == 2:
        return repr(rng.uniform(-1, 1) * 10.0 ** rng.randrange(-320, 308))
    if kind == 3:
        # In the middle between two floats, and beside it.
        bits = rng.randrange(1 << 23, 1 << 24) * 2 + 1
        value = bits * 2.0 ** rng.randrange(-174, 104)
        return f"{value:.{rng.choice((8, 9, 16, 17, 30, 60))}e}" + rng.choice(("", "", "f", "D"))
    if kind == 4:
        return f"{rng.random():.{rng.randrange(6, 19)}g}"
    return _number(rng) + rng.choice(("", "", "", "", "f", "d", "F", "D", "L"))


def _year(rng: random.Random) -> str:
    years = (0, 1, 4, 100, 400, 1582, 1600, 1900, 1970, 2000, 2024, 2026, 9999)
    far = (10_000, 12_024, 290_308, 294_247, 294_248, 999_999, 5_881_580, 5_881_581, 10_000_000)
    year = rng.choice(far) if rng.random() < 0.2 else rng.choice(years)
    sign = rng.choice(("", "", "", "", "", "-", "+"))
    return sign + f"{year:0{rng.choice((4, 4, 4, 4, 4, 5, 6, 7, 8, 3))}}"


def _date(rng: random.Random) -> str:
    month, day = rng.choice((1, 2, 2, 6, 11, 12, 0, 13)), rng.choice((1, 15, 28, 29, 30, 31, 0, 32))
    if rng.random() < 0.5:
        month, day = rng.randrange(1, 13), rng.randrange(1, 29)
    width = rng.choice((2, 2, 2, 2, 2, 2, 2, 1, 3))
    return f"{_year(rng)}-{month:0{width}}-{day:02}"


def _time(rng: random.Random) -> str:
    hour, minute = rng.choice((0, 10, 23, 24)), rng.choice((0, 30, 59, 60))
    text = f"{hour:02}:{minute:02}"
    if rng.random() < 0.9:
        text += f":{rng.choice((0, 30, 59, 60)):02}"
        if rng.random() < 0.6:
            text += "." + _digits(rng, rng.choice((3, 6, 9, 12))) + rng.choice(("", "0", "000"))
    return text


def _zone(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return "Z"
    names = (
        "z",
        "UTC",
        "Europe/Paris",
        "GMT+1",
        "+5",
        "-5:30",
        "+05:3",
        "+05:30:00",
        "",
        " Z",
        "CET",
    )
    if rng.random() < 0.15:
        return rng.choice(names)
    hour, minute = rng.choice((0, 1, 5, 17, 18, 19, 23)), rng.choice((0, 1, 30, 59, 60))
    return rng.choice("+-") + f"{hour:02}" + rng.choice(("", f"{minute:02}", f":{minute:02}"))


def _date_time(rng: random.Random) -> str:
    return _date(rng) + rng.choice("TTTT  t_") + _time(rng)


def _instant(rng: random.Random) -> str:
    return _date_time(rng) + _zone(rng)


def _boolean(rng: random.Random) -> str:
    words = ("true", "false", "t", "f", "y", "n", "yes", "no", "1", "0", "on", "off", "2", "TRUE")
    word = rng.choice(words)
    return rng.choice((word, word, word.upper(), word.title()))


def _binary(rng: random.Random) -> str:
    text = b64encode(rng.randbytes(rng.randrange(7))).decode()
    return text.rstrip("=") + "=" * rng.choice((0, 1, 2, 3)) if rng.random() < 0.4 else text


def _string(rng: random.Random) -> str:
    return "".join(rng.choices('ab\u00e9\U0001f600 \n\x00"\\', k=rng.randrange(6)))


def _json_value(rng: random.Random, of_element: Callable[[random.Random], str]) -> str:
    kind = rng.randrange(12)
    if kind == 0:
        return "null"
    if kind == 1:
        return rng.choice(("[1, 2]", '{"a" : 1.50}', "true", "1.50", "1e2", "-0", "[]", "{}"))
    text = of_element(rng)
    return json.dumps(text, ensure_ascii=rng.random() < 0.5)


def _array(rng: random.Random, of_element: Callable[[random.Random], str]) -> str:
    values = [_json_value(rng, of_element) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    return "[" + rng.choice((",", ", ")).join(values) + "]"


def _map(rng: random.Random, of_element: Callable[[random.Random], str]) -> str:
    values = [_json_value(rng, of_element) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    return "{" + ",".join(f'"{rng.choice("aab")}":{value}' for value in values) + "}"


_SCALARS: Final[dict[str, Callable[[random.Random], str]]] = {
    "string": _string,
    "boolean": _boolean,
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _integer),
    **dict.fromkeys(("float", "double"), _float),
    "decimal": _number,
    "date": _date,
    "timestamp": _instant,
    "timestamp_ntz": _date_time,
    "binary": _binary,
}
_ALPHABET: Final = '0123456789+-.eExXpPdDfFnN:TtZz=/_,;[]{}"' + _BLANKS + _DIGITS


def _mistaken(rng: random.Random, text: str) -> str:
    """A text with something too much, too little or otherwise."""
    at = rng.randrange(len(text) + 1)
    kind = rng.randrange(6)
    if kind == 0:
        return text[:at] + rng.choice(_ALPHABET) + text[at:]
    if kind == 1:
        return text[:at] + text[at + 1 :]
    if kind == 2:
        return text[:at] + rng.choice(_ALPHABET) + text[at + 1 :]
    if kind == 3:
        return "".join(rng.choices(_BLANKS, k=rng.randrange(3))) + text
    if kind == 4:
        return text + rng.choice(_ENDS)
    others = (text.upper(), text.lower(), text * 2, text[:at])
    return rng.choice(others)


def near_text(rng: random.Random, type: str) -> str:
    """A text that a value of a type may have been meant by: right in two of three."""
    text = _right(rng, type)
    while rng.random() < 0.35:
        text = _mistaken(rng, text)
    return text


def plain_text(rng: random.Random, type: str) -> str:
    """A text as decoders write values of a type."""
    return _right(rng, type)


def _right(rng: random.Random, type: str) -> str:
    kind = type.partition("(")[0]
    if kind in _SCALARS:
        if rng.random() < 0.02:
            return _SCALARS[rng.choice([*_SCALARS])](rng)
        return _SCALARS[kind](rng)
    make = _array if type.startswith("array<") else _map
    element = type.removeprefix("array<").removeprefix("map<string,").removesuffix(">")
    return make(rng, lambda rng: _right(rng, element))
