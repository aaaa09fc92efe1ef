"""Which connector's own order the messages of a table say: what ``order_by`` can name."""

from typing import Final

# By what a change log calls the order: the connectors that have it, and what their events say then.
_SAID: Final = {
    "postgresql": ((b"postgresql",), b'"sequence":"['),
    "mysql": ((b"mysql", b"mariadb"), b'"file":"'),
    "sqlserver": ((b"sqlserver",), b'"commit_lsn":"'),
    "oracle": ((b"oracle",), b'"scn":"'),
}


def order_said(metadata: bytes | None) -> str | None:
    """The order in which an event of Debezium's says its place, by its metadata; None for none."""
    if metadata is None:
        return None
    for name, (connectors, place) in _SAID.items():
        if place in metadata and any(b'"connector":"%b"' % each in metadata for each in connectors):
            return name
    return None
