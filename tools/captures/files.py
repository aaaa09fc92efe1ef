"""The captures of the demo and of the examples: one JSON-lines file per topic, the same bytes each
time.

Users never write them: they are committed. Maintainers change what is beside this file, write them
and commit both. Every payload is built from the wire formats' own documents (MessagePack from their
diagrams) and shares nothing with the decoders, so that a mistake there can't hide here.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tools.captures.aerospike_json import devices
from tools.captures.aerospike_messagepack import profiles, sessions
from tools.captures.arcion import accounts, regions
from tools.captures.common import Topic, at
from tools.captures.debezium import orders, products
from tools.captures.examples import contacts, invoices, shop
from tools.captures.lindorm import lindorm_contacts, lindorm_customers


def legacy_audit() -> Topic:
    """legacy.audit: no configuration matches it, so its payloads are quarantined."""
    topic = Topic("legacy.audit")
    topic.send(at("2026-10-15T00:00:00"), b"audit-1", b"2026-10-15 00:00:00 login ok user=ana")
    topic.send(at("2026-10-16T00:00:00"), None, b'{"event":"login","user":"jonas"}')
    return topic


TOPICS: Final[tuple[Callable[[], Topic], ...]] = (
    profiles,
    sessions,
    devices,
    regions,
    accounts,
    lindorm_customers,
    lindorm_contacts,
    products,
    orders,
    legacy_audit,
)
# Of each project, whose topics they are.
PROJECTS: Final[dict[str, tuple[Callable[[], Topic], ...]]] = {
    ".": TOPICS,
    "examples/debezium_postgresql": (invoices,),
    "examples/aerospike_namespace": (shop,),
    "examples/lake_on_postgresql": (contacts,),
}
ROOT: Final = Path(__file__).parents[2]


def captures() -> dict[Path, bytes]:
    """File to content of every capture."""
    return {
        ROOT / project / "seeds" / f"{topic.name}.jsonl": topic.capture()
        for project, builders in PROJECTS.items()
        for topic in (build() for build in builders)
    }
