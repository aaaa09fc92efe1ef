"""The connector's own order in a table's messages: a value for ``order_by``."""

from typing import Final

# The change log's name of the order: the connectors that have it, and the text in their events.
_SAID: Final = {
    "postgresql": ((b"postgresql",), b'"sequence":"['),
    "mysql": ((b"mysql", b"mariadb"), b'"file":"'),
    "sqlserver": ((b"sqlserver",), b'"commit_lsn":"'),
    "oracle": ((b"oracle",), b'"scn":"'),
}


def order_said(metadata: bytes | None) -> str | None:
    """The order in which a Debezium event gives its place, from its metadata; None without one."""
    if metadata is None:
        return None
    for name, (connectors, place) in _SAID.items():
        if place in metadata and any(b'"connector":"%b"' % each in metadata for each in connectors):
            return name
    return None
