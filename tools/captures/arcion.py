"""Arcion's captures: TPC-H's regions of MySQL, and subscriptions of PostgreSQL."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tools.captures.common import (
    DAY,
    HOUR,
    MINUTE,
    PEOPLE,
    SECOND,
    Image,
    Topic,
    at,
    compact,
    email_of,
    pretty,
)

# Arcion's samples stamp source.ts_ms with local time, 5:30 h ahead of the UTC beside it.
ARCION_AHEAD: Final = 5 * HOUR + 30 * MINUTE
ARCION_SOURCE_FIELDS: Final = (
    ("string", False, "version"),
    ("string", False, "connector"),
    ("string", False, "name"),
    ("int64", False, "ts_ms"),
    ("string", False, "db"),
    ("string", False, "schema"),
    ("string", True, "table"),
    ("string", True, "query"),
    ("string", True, "snapshot"),
    ("int64", False, "server_id"),
    ("string", True, "gtid"),
    ("string", False, "file"),
    ("int64", False, "pos"),
    ("int32", False, "row"),
)
ARCION_TRANSACTION_FIELDS: Final = (
    ("string", False, "id"),
    ("int64", False, "total_order"),
    ("int64", False, "data_collection_order"),
)
SNAPSHOT_CONNECTOR: Final = "KAFKA_snapshot_connector"
REALTIME_CONNECTOR: Final = "KAFKA_Connector"


def arcion_fields(fields: Iterable[tuple[str, bool, str]]) -> list[Image]:
    """Fields of a schema block, in the order of properties that Arcion writes."""
    return [{"type": t, "optional": optional, "field": name} for t, optional, name in fields]


@dataclass(frozen=True, slots=True)
class ArcionTable:
    """A source table as Arcion describes it; images list the columns in ``image_order``."""

    database: str
    schema: str | None
    table: str
    connector: str
    version: str
    columns: tuple[Image, ...]
    key: str
    image_order: tuple[str, ...]

    @property
    def path(self) -> str:
        """Dotted name, as in schema names and queries."""
        return ".".join(part for part in (self.database, self.schema, self.table) if part)

    def key_message(self, connector: str, row: Image) -> Image:
        """The Kafka key of ``row``."""
        column = next(c for c in self.columns if c["field"] == self.key)
        return {
            "schema": {
                "type": "struct",
                "optional": False,
                "name": f"{connector}.{self.path}.Key",
                "fields": [column],
            },
            "payload": {self.key: row[self.key]},
        }

    def value_schema(self, connector: str, *, revised: bool) -> Image:
        """The envelope's schema; ``revised`` as in the page's later revision.

        That one declares images optional and has no transaction.
        """
        images = [
            {
                "type": "struct",
                "optional": revised,
                "field": side,
                "name": f"{connector}.{self.path}.Value",
                "fields": list(self.columns),
            }
            for side in ("before", "after")
        ]
        source = arcion_fields(
            (t, optional or (name == "ts_ms" and connector == SNAPSHOT_CONNECTOR), name)
            for t, optional, name in ARCION_SOURCE_FIELDS
        )
        fields: list[Image] = [
            *images,
            {
                "type": "struct",
                "optional": False,
                "field": "source",
                "name": connector,
                "fields": source,
            },
        ]
        if not revised:
            fields.append(
                {
                    "type": "struct",
                    "optional": True,
                    "field": "transaction",
                    "name": None,
                    "fields": arcion_fields(ARCION_TRANSACTION_FIELDS),
                }
            )
        fields += arcion_fields((("string", False, "op"), ("int64", True, "ts_ms")))
        return {
            "type": "struct",
            "optional": False,
            "name": f"{connector}.{self.path}.Envelope",
            "fields": fields,
        }

    def query(self, op: str, before: Image | None, after: Image | None) -> str:
        """The statement that Arcion puts into the source block, unquoted, with its odd AND."""
        names = [column["field"] for column in self.columns]

        def pairs(row: Image) -> str:
            return " AND ".join(f"{name}={row[name]}" for name in names)

        if op == "d" and before is not None:
            return f"DELETE FROM {self.path} WHERE {pairs(before)}"
        if op == "u" and before is not None and after is not None:
            return f"UPDATE {self.path} SET {pairs(after)} WHERE {pairs(before)}"
        row = after or {}
        values = ", ".join(str(row[name]) for name in names)
        return f"INSERT INTO {self.path}({', '.join(names)}) VALUES({values})"

    def value_message(
        self,
        op: str,
        before: Image | None,
        after: Image | None,
        *,
        ts_ms: int | None = None,
        source_ts_ms: int | None = None,
        pos: int | None = None,
        thread: int = 160,
        file: str = "log-bin.000001",
        revised: bool = False,
    ) -> Image:
        """The Kafka value of a change. Snapshot mode, op ``r``, has no position and no times."""
        snapshot = op == "r"
        connector = SNAPSHOT_CONNECTOR if snapshot else REALTIME_CONNECTOR

        def image(row: Image | None) -> Image | None:
            if row is None:
                return {} if revised else None
            return {name: row[name] for name in self.image_order}

        source = {
            "schema": self.schema,
            "query": self.query(op, before, after),
            "thread": None if snapshot else thread,
            "server_id": None if snapshot else "1",
            "version": self.version,
            "file": None if snapshot else file,
            "connector": self.connector,
            "pos": pos,
            "name": connector,
            "gtid": None,
            "row": None if snapshot else 1,
            "ts_ms": source_ts_ms,
            "db": self.database,
            "table": self.table,
            "snapshot": "true" if snapshot else "false",
        }
        payload: Image = {
            "before": image(before),
            "after": image(after),
            "source": source,
            "op": op,
            "ts_ms": ts_ms,
        }
        if not revised:
            payload["transaction"] = {"id": "", "total_order": None if snapshot else 1}
        return {"schema": self.value_schema(connector, revised=revised), "payload": payload}


REGION: Final = ArcionTable(
    database="tpch",
    schema=None,
    table="region",
    connector="MYSQL",
    version="5.7.24",
    columns=(
        {"type": "int32", "optional": False, "field": "r_regionkey"},
        {"type": "string", "optional": False, "field": "r_name"},
        {"type": "string", "optional": True, "field": "r_comment"},
    ),
    key="r_regionkey",
    image_order=("r_regionkey", "r_comment", "r_name"),
)
# The five rows of TPC-H's region table.
TPCH_REGIONS: Final = (
    (
        "AFRICA",
        "lar deposits. blithely final packages cajole. regular waters are final requests. "
        "regular accounts are according to ",
    ),
    ("AMERICA", "hs use ironic, even requests. s"),
    ("ASIA", "ges. thinly even pinto beans ca"),
    ("EUROPE", "ly final courts cajole furiously final excuse"),
    (
        "MIDDLE EAST",
        "uickly special accounts cajole carefully blithely close requests. carefully final "
        "asymptotes haggle furiousl",
    ),
)


def region_row(key: int, name: str, comment: str | None) -> Image:
    """A row as Arcion ships it: every value as a string."""
    return {"r_regionkey": str(key), "r_name": name, "r_comment": comment}


def regions() -> Topic:
    """arcion.tpch.region: MySQL through Arcion; the page's examples as printed."""
    topic = Topic("arcion.tpch.region")
    dice = topic.dice
    rows: dict[int, Image] = {}
    when = at("2026-10-01T06:00:00")
    pos = 4_000

    for key, (name, comment) in enumerate(TPCH_REGIONS):
        rows[key] = region_row(key, name, comment)
        render = pretty if key == 0 else compact
        topic.send(
            when + key * 40,
            render(REGION.key_message(SNAPSHOT_CONNECTOR, rows[key])),
            render(REGION.value_message("r", None, rows[key])),
        )

    def page(op: str, key: int, after: Image | None, ts: int, source_ts: int, at_pos: int) -> None:
        """A realtime example of the page: the same bytes as printed there."""
        nonlocal when
        when += 20 * MINUTE
        before = rows.pop(key, None)
        value = REGION.value_message(
            op, before, after, ts_ms=ts, source_ts_ms=source_ts, pos=at_pos
        )
        key_row = after or before or {}
        topic.send(
            when,
            pretty(REGION.key_message(REALTIME_CONNECTOR, key_row)),
            pretty(value),
        )
        if after is not None:
            rows[key] = after
        if op == "d":
            tombstone = pretty(REGION.key_message(REALTIME_CONNECTOR, key_row))
            topic.send(when + 1, tombstone, b'"default"')

    page("u", 0, region_row(0, "AFRICA", "Test_Replication"), 1677138289062, 1677158088000, 1248)
    page("d", 0, None, 1677139520242, 1677159319000, 2077)
    page("c", 6, region_row(6, "Test_Region", "Test_Comment"), 1677139769357, 1677159568000, 2690)

    def change(op: str, key: int, after: Image | None = None, *, late: int = 0) -> bytes:
        """A realtime change; ``late`` moves the source's time back by so many milliseconds."""
        nonlocal when, pos
        when += dice.between(20 * HOUR, 90 * HOUR)
        pos += dice.between(300, 900)
        before = rows.pop(key, None)
        value = compact(
            REGION.value_message(
                op,
                before,
                after,
                ts_ms=when - 30,
                source_ts_ms=(when + ARCION_AHEAD - SECOND - late) // SECOND * SECOND,
                pos=pos,
            )
        )
        key_bytes = compact(REGION.key_message(REALTIME_CONNECTOR, after or before or {}))
        topic.send(when, key_bytes, value)
        if after is not None:
            rows[key] = after
        if op == "d":
            topic.send(when + 1, key_bytes, b'"default"')
        return value

    change("c", 7, region_row(7, "OCEANIA", None))
    change("u", 7, region_row(7, "OCEANIA", "islands, and a continent"))
    change("u", 1, region_row(1, "AMERICA", "north and south"))
    change("c", 8, region_row(8, "ANTARCTICA", "no customers yet"))
    # Region 0 comes back, after the page's delete.
    change("c", 0, region_row(0, "AFRICA", "back on the map"))
    change("u", 6, region_row(6, "TEST", "Test_Comment"))
    change("d", 8)
    # A key change: Arcion ships the delete of the old key and the insert of the new one.
    change("d", 7)
    change("c", 9, region_row(9, "OCEANIA", "islands, and a continent"))
    # The source's clock went backwards: the log's order counts, so this update does, too.
    change("u", 2, region_row(2, "ASIA", "second edition"))
    change("u", 2, region_row(2, "ASIA", "third edition"), late=3 * HOUR + 70 * DAY)
    # Replicant restarted and sent its last change again.
    again = change("u", 3, region_row(3, "EUROPE", "fähig, naïve, 東 — any letter"))
    topic.send(when + 2 * MINUTE, compact(REGION.key_message(REALTIME_CONNECTOR, rows[3])), again)
    change("u", 4, region_row(4, "MIDDLE EAST", ""))
    change("d", 6)
    change("u", 0, region_row(0, "AFRICA", "fifty-four countries"))
    change("c", 10, region_row(10, "OUTER SPACE", "reserved"))
    change("u", 10, region_row(10, "OUTER SPACE", None))

    # Poison: an operation that Arcion does not have.
    odd = REGION.value_message("x", rows[4], rows[4], ts_ms=when, source_ts_ms=when, pos=pos)
    topic.send(when + HOUR, compact(REGION.key_message(REALTIME_CONNECTOR, rows[4])), compact(odd))
    return topic


ACCOUNTS: Final = ArcionTable(
    database="crm",
    schema="public",
    table="accounts",
    connector="POSTGRESQL",
    version="13.9",
    columns=(
        {"type": "int64", "optional": False, "field": "account_id"},
        {"type": "string", "optional": False, "field": "email"},
        {"type": "string", "optional": False, "field": "plan"},
        {"type": "double", "optional": True, "field": "monthly_fee"},
        {"type": "int32", "optional": True, "field": "seats"},
        {"type": "boolean", "optional": True, "field": "active"},
        {
            "type": "int64",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Timestamp",
            "version": 1,
            "field": "created_at",
        },
    ),
    key="account_id",
    image_order=(
        "account_id",
        "email",
        "plan",
        "monthly_fee",
        "seats",
        "active",
        "created_at",
    ),
)
FEES: Final[dict[str, str | None]] = {"free": None, "team": "49.90", "business": "199.00"}


def accounts() -> Topic:
    """arcion.crm.accounts: PostgreSQL through Arcion.

    Values are strings up to Replicant's upgrade; after it they are typed, and an absent image is
    ``{}``.
    """
    topic = Topic("arcion.crm.accounts")
    dice = topic.dice
    rows: dict[int, Image] = {}
    when = at("2026-10-02T04:00:00")
    lsn = 26_000_000
    revised = False

    def row(key: int, plan: str, seats: int | None, active: bool = True, email: str = "") -> Image:
        first, last, _ = PEOPLE[key % len(PEOPLE)]
        created = at("2026-01-05T09:30:00.250") + key % 1000 * 11 * HOUR
        fee = FEES[plan]
        return {
            "account_id": key,
            "email": email or email_of(first, last),
            "plan": plan,
            "monthly_fee": None if fee is None else float(fee),
            "seats": seats,
            "active": active,
            "created_at": created,
        }

    def shipped(image: Image | None) -> Image | None:
        """The image in the style of the time: strings before the upgrade, typed values after it."""
        if image is None or revised:
            return image
        text: Image = {}
        for name, value in image.items():
            if isinstance(value, bool):
                text[name] = "true" if value else "false"
            elif isinstance(value, float):
                text[name] = f"{value:.2f}"
            else:
                text[name] = None if value is None else str(value)
        return text

    def message_key(image: Image, connector: str = REALTIME_CONNECTOR) -> bytes:
        return compact(ACCOUNTS.key_message(connector, shipped(image) or {}))

    def change(
        op: str, key: int, after: Image | None = None, *, late: int = 0
    ) -> tuple[bytes, bytes]:
        nonlocal when, lsn
        when += dice.between(12 * HOUR, 70 * HOUR)
        lsn += dice.between(80, 4_000)
        before = rows.pop(key, None)
        value = compact(
            ACCOUNTS.value_message(
                op,
                shipped(before),
                shipped(after),
                ts_ms=when - 45,
                source_ts_ms=(when + ARCION_AHEAD - SECOND - late) // SECOND * SECOND,
                pos=lsn,
                thread=4411,
                file="000000010000000000000031",
                revised=revised,
            )
        )
        key_bytes = message_key(after or before or {})
        topic.send(when, key_bytes, value)
        if after is not None:
            rows[key] = after
        return key_bytes, value

    plans = ("free", "team", "business")
    for n in range(12):
        key = 1001 + n
        rows[key] = row(key, plans[n % 3], None if n % 3 == 0 else 2 + n, active=n != 5)
        value = ACCOUNTS.value_message("r", None, shipped(rows[key]))
        topic.send(when + n * 25, message_key(rows[key], SNAPSHOT_CONNECTOR), compact(value))

    change("c", 1013, row(1013, "team", 5))
    change("u", 1001, row(1001, "team", 3))
    change("c", 1014, row(1014, "free", None))
    # A key change, as its DELETE, tombstone and INSERT.
    key_bytes, _ = change("d", 1004)
    topic.send(when + 1, key_bytes, b'"default"')
    change("c", 2004, row(2004, "free", None, email="finance@ghent-bikes.example.org"))
    change("u", 1005, row(1005, "business", 40))
    key_bytes, _ = change("d", 1006)
    topic.send(when + 1, key_bytes, b'"default"')
    # The customer comes back under the old number.
    change("c", 1006, row(1006, "team", 2, email="welcome.back@example.org"))
    change("u", 1013, row(1013, "team", 5, active=False))
    key_bytes, again = change("u", 1009, row(1009, "business", 25))
    topic.send(when + 90 * SECOND, key_bytes, again)

    revised = True
    change("c", 1015, row(1015, "business", 120))
    change("u", 1015, row(1015, "business", 140))
    change("u", 1002, row(1002, "free", None))
    # Tombstones of the later revision: the JSON null, and no value at all.
    key_bytes, _ = change("d", 1007)
    topic.send(when + 1, key_bytes, b"null")
    key_bytes, _ = change("d", 1014)
    topic.send(when + 1, key_bytes, None)
    change("c", 1014, row(1014, "team", 4))
    key_bytes, _ = change("d", 1010)
    topic.send(when + 1, key_bytes, b"")
    change("c", 1016, row(1016, "team", 8))
    # The source's clock was set back: the log's order counts.
    change("u", 1016, row(1016, "team", 9), late=5 * DAY)
    change("u", 2004, row(2004, "team", 6, email="finance@ghent-bikes.example.org"))

    # Poison: a proxy's error page that a retry wrote into the topic.
    topic.send(when + HOUR, None, b"<html><body><h1>502 Bad Gateway</h1></body></html>\n")
    return topic
