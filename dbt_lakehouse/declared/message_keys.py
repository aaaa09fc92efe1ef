"""Compare the keys of messages with the key that a change log declares.

A message's key has names and values (``record_key``). As long as the names are those of the
declared key, or messages have no key, no extra query runs: the log's own query compares the
names, and fails at the first difference (``REFUSAL``). Then one query over all of the log's
events finds the cause (``judge``):

    the names have changed      after events with the declared names, others have come: an error,
                                for rows would be merged, or deletes would miss their rows
    they had others before      and all since have the declared ones: the key was redeclared.
                                The events before are typed by their own keys
                                (dbt_lakehouse/build/sql/former_key_parts.sql)
    they were never those       and always the same: the key is the log author's choice. The log
                                takes the events, and each run warns until the declaration names
                                these keys

A declaration names them in ``message_key``: the names that messages' keys may have beside the
declared ones, or ``"*"`` for any.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dbt_common.exceptions import CompilationError

from dbt_lakehouse.texts import counted, sql_texts
from python_udfs.core.events import OF_ROWS

ANY: Final = "*"
_REFUSED: Final = "a message key of other columns than declared"
REFUSAL: Final = f"raise_error('{_REFUSED}')"
"""Replaces the operation of such an event in the query of a change log's rows."""
UNREFUSED: Final = "operation"
# A property of a change log: key names that its runs accept although it does not declare them.
TAKEN: Final = "lakehouse.message_keys"
# Partitions may have different clocks: across partitions, only a difference above this is an
# order.
_CLOCKS_DIFFER: Final = 60_000_000
# The most groups of topic, partition, table and key names. Names that have just changed are in
# the smallest groups.
_MOST_GROUPS: Final = 100_000
# Columns with these names are most likely keys.
_IDENTIFIERS: Final = frozenset({"id", "uuid", "guid", "pk"})

Names = tuple[str, ...]


def is_refusal(message: str) -> bool:
    """Whether an error's message comes from ``REFUSAL``."""
    return _REFUSED in message


def declared(given: Any, title: str) -> str | list[list[str]]:
    """``message_key`` as a declaration keeps it: "*", or lists of names.

    Raises ``CompilationError`` if it is anything else.
    """
    if given == ANY:
        return ANY
    keys = [given] if _is_names(given) else given
    if not isinstance(keys, Sequence) or isinstance(keys, str) or not keys:
        keys = [None]
    if not all(map(_is_names, keys)):
        raise CompilationError(
            f"the change log of {title} has message_key={given!r}: it is a list of the names in the"
            ' messages\' keys, like ["customer"], a list of such lists, or "*" for any'
        )
    return [sorted(set(names)) for names in keys]


def _is_names(given: Any) -> bool:
    return (
        isinstance(given, Sequence)
        and not isinstance(given, str)
        and len(given) > 0
        and all(isinstance(name, str) for name in given)
    )


def key_fields(log: Mapping[str, Any]) -> Names:
    """The field names of the declared key in messages; empty for a log without a key of its own."""
    if log["keyless"] or log["namespace"] is not None:
        return ()
    key = log["key"]
    return tuple(sorted({spec["field"] for spec in log["columns"] if spec["column"] in key}))


def allowed(log: Mapping[str, Any], taken: Iterable[Sequence[str]]) -> list[list[str]]:
    """The key names that a log's events may have; empty if any names may be."""
    fields, said = key_fields(log), log.get("message_key") or []
    if not fields or said == ANY:
        return []
    return [list(names) for names in dict.fromkeys(map(tuple, [fields, *said, *taken]))]


def is_certain(log: Mapping[str, Any]) -> bool:
    """Whether a run need not warn when rows contradict a declared key: the declaration confirms
    the key in message_key, or its name makes it credible.
    """
    said, fields = log.get("message_key") or [], key_fields(log)
    table = next((names[-1] for names in log["sources"] or []), None)
    return said == ANY or list(fields) in said or is_believed(fields, log["fields"], table or "")


def is_believed(key: Iterable[str], columns: Iterable[str], table: str) -> bool:
    """Whether a key has a column that is named like a key, and no other column is. Rows that are
    inserted again are then rows whose deletes were lost, or left out (Debezium's
    ``skipped.operations``).
    """
    key = {*key}
    called = identifiers((*key, *columns), table)
    return bool(called) and called <= key


def identifiers(columns: Iterable[str], table: str) -> set[str]:
    """The columns of a table that are named like a key: id, uuid, order_id of orders."""
    known = _IDENTIFIERS | {f"{_plain(table).removesuffix('s')}id"}
    return {name for name in columns if _plain(name) in known}


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def question(log: Mapping[str, Any], events: str) -> str:
    """The query for the key names of a log's events, with where and when they came.

    ``events`` are its decoded events, as SQL of a relation: all that the log has read or is to
    read.
    """
    conditions = "".join(f"\n    and {condition}" for condition in log["conditions"])
    fields = key_fields(log)
    has_key = f"size(array_intersect(json_object_keys(after), array({sql_texts(fields)})))"
    return f"""
select
    topic,
    partition,
    source_database,
    source_schema,
    source_table,
    names,
    min(offset) as first_offset,
    max(offset) as last_offset,
    unix_micros(min(log_time)) as first_time,
    unix_micros(max(log_time)) as last_time,
    count_if(after is not null) as images,
    max_by(json_object_keys(after), struct(log_time, offset)) filter (where after is not null)
        as fields,
    count_if(after is not null and {has_key} < {len(fields)}) as without_key
from (
    select *, json_object_keys(record_key) as names from {events}
) as events
where
    operation in ({sql_texts(OF_ROWS)})
    and record_key is not null{conditions}
group by topic, partition, source_database, source_schema, source_table, names
order by count(*) desc
limit {_MOST_GROUPS}
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on a log that has events with other keys than it declares."""

    error: str | None = None
    """Why nothing can be folded."""
    taken: list[list[str]] = field(default_factory=list)
    """The key names that are accepted as the log author's choice."""
    has_former: bool = False
    """Whether there are events from before the key was redeclared."""
    renamed: dict[str, str] = field(default_factory=dict)
    """The former names of key fields in those events."""

    @property
    def explains(self) -> bool:
        """Whether any other key was found."""
        return self.error is not None or bool(self.taken) or self.has_former


@dataclass(slots=True)
class _Group:
    """The events of a partition whose keys have the same names."""

    partition: int
    first_offset: int
    last_offset: int
    first_time: int
    last_time: int
    images: int
    without_key: int
    fields: list[str] | None
    """The fields of the newest image."""


def judge(rows: Iterable[Mapping[str, Any]], log: Mapping[str, Any], owner: str) -> Verdict:
    """The verdict on the rows of ``question`` for the log whose table is ``owner``."""
    declared_names = key_fields(log)
    said = {tuple(names) for names in log.get("message_key") or []} - {declared_names}
    # Each table of each topic has a history of its own.
    places: dict[tuple[Any, ...], dict[Names, list[_Group]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in rows:
        names = tuple(sorted(row["names"]))
        if names not in said:
            place = (
                row["topic"],
                row["source_database"],
                row["source_schema"],
                row["source_table"],
            )
            group = _Group(**{name: row[name] for name in _Group.__slots__})
            places[place][names].append(group)
    taken: set[Names] = set()
    renamed: dict[str, str] = {}
    has_former = False
    for (topic, *_), keys in sorted(places.items(), key=lambda item: str(item[0])):
        matching = keys.pop(declared_names, [])
        if not keys:
            continue
        if not matching:
            error = _never_declared(topic, declared_names, keys)
            taken |= keys.keys()
        else:
            error = _since_declared(topic, declared_names, matching, keys)
            has_former = True
            for names, groups in keys.items():
                renamed |= _renamed(names, groups, declared_names, matching)
        if error is not None:
            return Verdict(f"{owner}: {error}")
    return Verdict(None, [list(names) for names in sorted(taken)], has_former, renamed)


def _since_declared(
    topic: str, fields: Names, matching: Sequence[_Group], keys: Mapping[Names, list[_Group]]
) -> str | None:
    """The error if other key names came after the declared ones in a topic; None if all of them
    came before.
    """
    first = {group.partition: group.first_offset for group in matching}
    begin = min(group.first_time for group in matching)
    end = max(group.last_time for group in matching)
    for names, groups in keys.items():
        for group in groups:
            is_behind = group.last_offset > first.get(group.partition, group.last_offset)
            if is_behind or group.last_time > min(end, begin + _CLOCKS_DIFFER):
                is_all = group.first_offset > first.get(group.partition, -1)
                return _sentence(
                    f"its messages' keys had the declared columns ({_shown(fields)}), but newer"
                    " ones have others",
                    topic,
                    names,
                    group.partition,
                    group.first_offset if is_all else group.last_offset,
                )
    return None


def _renamed(
    former: Names, before: Sequence[_Group], now: Names, since: Sequence[_Group]
) -> dict[str, str]:
    """The former names of key fields that are the same columns under another name: no image has
    both.
    """
    had, has = _fields_of(before), _fields_of(since)
    gone = [name for name in former if name not in now and name not in has]
    new = [name for name in now if name not in former and name not in had]
    if len(former) != len(now) or len(gone) != len(set(former) - set(now)) or len(gone) != len(new):
        return {}
    by_case = {name.lower(): name for name in gone}
    renamed = {name: by_case[name.lower()] for name in new if name.lower() in by_case}
    rest = [name for name in new if name not in renamed]
    if len(rest) == 1:
        renamed[rest[0]] = next(name for name in gone if name not in renamed.values())
    return renamed if len(rest) < 2 else {}


def _fields_of(groups: Sequence[_Group]) -> frozenset[str]:
    """The fields of the newest image of some events."""
    newest = max(groups, key=lambda group: (group.fields is not None, group.last_time))
    return frozenset(newest.fields or ())


def _never_declared(topic: str, fields: Names, keys: Mapping[Names, list[_Group]]) -> str | None:
    """The error about a topic whose events have never had the declared key names."""
    names, groups = next(iter(keys.items()))
    images = sum(group.images for group in groups)
    if len(keys) > 1:
        newest = max(keys, key=lambda each: max(group.last_time for group in keys[each]))
        last = max(keys[newest], key=lambda group: group.last_time)
        others = "; ".join(f"({_shown(each)})" for each in sorted(keys) if each != newest)
        return _sentence(
            f"the declared key is ({_shown(fields)}), and its messages' keys have changed from"
            f" {others} to others",
            topic,
            newest,
            last.partition,
            last.last_offset,
        )
    if images and images == sum(group.without_key for group in groups):
        return _sentence(
            f"the declared key is ({_shown(fields)}), and no row has all of these columns",
            topic,
            names,
            groups[0].partition,
            groups[0].first_offset,
        )
    return None


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names)


def _sentence(what: str, topic: str, names: Names, partition: int, offset: int) -> str:
    listed = ", ".join(f'"{name}"' for name in names)
    return (
        f"{what}: topic {topic}, partition {partition}, offset {offset} has a key of"
        f" ({_shown(names)}). With the declared key, rows could be merged and deletes could miss"
        " their rows, so nothing was written to this table, and each run reports this until the"
        " key is declared:"
        f" `lakehouse generate --topic {topic}` writes the new key, and the next build rebuilds the"
        f" table. If the declared key is right, accept such keys with message_key=[{listed}] in the"
        " change log"
    )


def warning(log: Mapping[str, Any], taken: Iterable[Sequence[str]], owner: str) -> str | None:
    """The warning of each run about key names that a log takes without declaring them, if any."""
    said = {tuple(names) for names in log.get("message_key") or []}
    others = [names for names in map(tuple, taken) if names not in said]
    if not others:
        return None
    shown = "; ".join(f"({_shown(names)})" for names in others)
    lists = ", ".join("[" + ", ".join(f'"{name}"' for name in names) + "]" for names in others)
    return (
        f"{owner}: the declared key is ({_shown(key_fields(log))}), but the messages' own keys are"
        f" of {shown}. If that is intended, set"
        f" message_key={lists if len(others) == 1 else f'[{lists}]'} in the change log; otherwise"
        " declare another key by `lakehouse generate` with --key"
    )


def doubt(log: Mapping[str, Any], found: Mapping[str, Any], owner: str) -> str:
    """The warning of each run about a declared key for which rows were inserted again and again.
    ``found`` is the number of ``keys``, and the ``topic``, ``partition`` and ``offset`` of one.
    """
    fields = key_fields(log)
    listed = ", ".join(f'"{name}"' for name in fields)
    place = f"topic {found['topic']}, partition {found['partition']}, offset {found['offset']}"
    return (
        f"{owner}: ({_shown(fields)}) doesn't seem to identify its rows, so rows are missing here:"
        f" {counted(found['keys'], 'key')} had another row inserted while one was there, such as"
        f" that of {place}. Is it Debezium's message.key.columns? `lakehouse generate --topic"
        f" {found['topic']} --key COLUMN,...` declares the key of the rows; if it is their key,"
        f" set message_key=[{listed}] in the change log"
    )
