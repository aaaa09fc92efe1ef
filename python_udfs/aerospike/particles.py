"""Aerospike's particle types: the kind of a bin's value, and the MessagePack type in which it is
shipped.

NULL and HLL aren't on the vendor's page; real servers ship them.
"""

from typing import Final

NULL: Final = 0
INTEGER: Final = 1
DOUBLE: Final = 2
STRING: Final = 3
BLOB: Final = 4
JAVA_OBJ: Final = 7
BOOLEAN: Final = 17
HLL: Final = 18
MAP: Final = 19
LIST: Final = 20
GEOJSON: Final = 23

# The MessagePack types by the names that the page uses, for error texts.
LISTED: Final = {
    NULL: ("NULL", "nil"),
    INTEGER: ("INTEGER", "int"),
    DOUBLE: ("DOUBLE", "float"),
    STRING: ("STRING", "str"),
    BLOB: ("BLOB", "bin"),
    JAVA_OBJ: ("JAVA OBJ", "bin"),
    BOOLEAN: ("BOOLEAN", "bool"),
    HLL: ("HLL", "bin"),
    MAP: ("MAP", "map"),
    LIST: ("LIST", "array"),
    GEOJSON: ("GEOJSON", "str"),
}

# Values that JSON takes as they are: the encoder turns bytes into base64.
SCALARS: Final[dict[int, type]] = {
    NULL: type(None),
    INTEGER: int,
    STRING: str,
    BLOB: bytes,
    JAVA_OBJ: bytes,
    BOOLEAN: bool,
    HLL: bytes,
}
