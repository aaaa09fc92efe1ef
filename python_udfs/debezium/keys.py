"""Record keys of the Debezium family: a unique text for the columns of a Kafka key.

Numbers are compared as numbers (``text.numbers``), so also those that bring their scale
(``VariableScaleDecimal``) where no schema block says what they are: the object ``{scale, value}``
is its number. YugabyteDB's keys are of cells (``cells``).
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from python_udfs.debezium import cells
from python_udfs.debezium.values import Misfit, variable_scale_decimal
from python_udfs.text.json_as_sent import canonical
from python_udfs.text.numbers import plain_number

_SCALED: Final = frozenset({"scale", "value"})
_type_of: Callable[[Any], type] = type
_FLAT: Final[frozenset[type]] = frozenset({str, int, bool, type(None)})
_MAY_BE_NUMBERS: Final[frozenset[type]] = frozenset({msgspec.Raw, dict})


def key_text(columns: dict[str, Any]) -> bytes:
    """The record key of a Kafka key's columns."""
    return canonical({name: key_value(value) for name, value in cells.of_key(columns).items()})


def key_value(value: Any) -> Any:
    """A column of a key, its numbers in the form of ``text.numbers``."""
    if type(value) is dict and value.keys() == _SCALED and type(value["scale"]) is int:
        try:
            value = variable_scale_decimal(False, value)
        except Misfit:
            pass
    return plain_number(value)


def are_flat(struct: type[msgspec.Struct], keys: Sequence[Any]) -> bool:
    """Whether no column of a Struct's keys is an object, or may contain one."""
    return all(
        _FLAT.issuperset(map(_type_of, map(attrgetter(name), keys)))
        for name in struct.__struct_fields__
    )


def key_rows(struct: type[msgspec.Struct], keys: Sequence[Any]) -> Sequence[Any]:
    """``key_value`` of each column of a Struct's keys, or the same object if no value changes.
    None of them is a cell.
    """
    names = struct.__struct_fields__
    columns = [list(map(attrgetter(name), keys)) for name in names]
    places = [n for n, each in enumerate(columns) if _MAY_BE_NUMBERS & set(map(_type_of, each))]
    if not places:
        return keys
    for place in places:
        columns[place] = list(map(key_value, columns[place]))
    make: Any = struct
    return [make(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]
