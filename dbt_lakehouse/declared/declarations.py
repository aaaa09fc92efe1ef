"""The declaration of a change log, stated once.

A model calls ``change_log`` or ``aerospike_change_log``; the macro hands the arguments to
``change_log`` here, which checks them and returns what stays in the model's ``meta``. Gold models
and histories name their log and find the rest in the graph (``fold_of_log``).
"""

import json
import re
from collections.abc import Collection, Iterator, KeysView, Mapping, Sequence
from hashlib import md5
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
from dbt_common.exceptions import CompilationError
from jinja2 import Undefined

from dbt_lakehouse.declared import message_keys, source_order
from dbt_lakehouse.declared.columns import (
    HEADERS,
    METADATA,
    WHOLE_IMAGE,
    column_of,
    is_beside,
)
from dbt_lakehouse.declared.widening import WIDENING
from dbt_lakehouse.masking import mask_key
from dbt_lakehouse.texts import did_you_mean, sql_text, sql_texts, unmatched_bracket
from python_udfs.registry import AEROSPIKE_FORMATS
from python_udfs.typed.masks import HASH, fingerprint

if TYPE_CHECKING:
    from python_udfs.core.events import Source
    from python_udfs.typed.declared import Log

ANY: Final = "*"
"""A wildcard for the name of a database, schema or table. It also matches a missing name."""

ARGUMENTS: Final = MappingProxyType(
    {
        "change_log": frozenset(
            """
            source_database source_schema source_table topic where key columns keyless partial
            order_by_source_time message_key follow order_by reconcile_snapshots
            """.split()
        ),
        "aerospike_change_log": frozenset(
            "namespace set topic where columns partial order_by_source_time follow".split()
        ),
        "current_state": frozenset("changes columns deleted_rows".split()),
        "history": frozenset("changes track_columns columns bitemporal".split()),
    }
)
"""The arguments of the macros that declare models."""
_SOURCE: Final = ("source_table", "source_schema", "source_database")
_FLAGS: Final = (
    *("keyless", "partial", "order_by_source_time", "reconcile_snapshots"),
    *("deleted_rows", "bitemporal"),
)
_TEXTS: Final = ("topic", "where", "namespace", "follow")
# Of current_state and history; a change log's columns are a mapping.
_LISTS: Final = ("columns", "track_columns")


def declare(
    macro: str, arguments: Mapping[str, Any], unknown: Collection[str]
) -> dict[str, dict[str, Any]]:
    """What a model's ``meta`` keeps of a macro call: for a change log its checked declaration,
    for other macros the arguments. ``unknown`` are arguments that the macro does not have.

    Raises ``CompilationError`` for these, or for what can't be declared.
    """
    refuse_arguments(macro, unknown)
    _refuse_kinds(macro, arguments)
    if macro == "aerospike_change_log":
        # An Aerospike record's key is its digest.
        return {"change_log": change_log({**arguments, "key": {}, "keyless": False})}
    if macro == "change_log":
        return {"change_log": change_log(arguments)}
    # Left out when false, so that the meta of other tables stays as it was before the option
    # existed.
    kept = (each for each in arguments.items() if each != ("deleted_rows", False))
    return {macro: dict(kept)}


def change_log(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a change log's ``meta`` keeps of its declaration:

        columns             for each column its name, type, field in the image, and encoding; if
                            masked, the mask, and as "clear" the type before masking; if inside
                            its field, the path as a list of names; if the source gave it beside
                            the row, "from" metadata or headers, and the path
        fields              the fields of the row's columns, "$" for the whole image
        key                 the names of the key columns; for a keyless table all of the row's
        conditions          SQL conditions on events: which of them are the log's
        technical           further columns, as SQL
        keyless, partial    as declared
        namespace           the Aerospike namespace; None for all other logs
        order_by_source_time
        order_by            if declared, the source's own order (``source_order``)
        several_sources     whether events of several source tables can come together
        sources             these tables: database, schema and table of each; None for any
        message_key         if declared, the names of the messages' own keys (``message_keys``)
        follow              "widening" if its columns follow values that have outgrown them
        reconcile_snapshots  if declared, rows that a full snapshot did not read are gone

    Raises ``CompilationError`` for what can't be declared.
    """
    key, columns = arguments["key"], arguments["columns"]
    keyless, partial = arguments["keyless"], arguments["partial"]
    namespace = arguments.get("namespace")
    title: Any = arguments.get("source_table") or arguments.get("set")
    for name, given in (("key", key), ("columns", columns)):
        # An undefined name of Jinja's is false, and neither.
        if given is not None and not isinstance(given, Mapping):
            raise CompilationError(
                f"the change log of {title}: {name} must be a mapping of names to types,"
                f' {name}={{"column": "type"}}'
            )
    if namespace is None and not key and not keyless:
        raise CompilationError(
            f'the change log of {title} needs its key columns: key={{"column": "type"}}.'
            " Lindorm ships none, nor does Arcion for a table without one, so they must be"
            " declared. A table that has no key at all needs keyless=true"
        )
    if keyless and (key or partial):
        raise CompilationError(
            f"the change log of {title} is keyless: it can have neither a key nor partial images"
        )
    _refuse_twice([*key, *columns])
    specs = [column_of(name, declared) for name, declared in {**key, **columns}.items()]
    beside = [spec["column"] for spec in specs if is_beside(spec)]
    for spec in specs:
        if spec["column"] in key and spec.get("mask", HASH) != HASH:
            raise CompilationError(
                f'the key column {spec["column"]} has the mask "{spec["mask"]}", by which rows'
                ' could not be told apart: a key column can have "hash"'
            )
    inside = [spec["column"] for spec in specs if spec["column"] in key and "path" in spec]
    if inside and inside[0] in beside:
        raise CompilationError(
            f"the key column {inside[0]} can't be from metadata or headers: a value beside the row"
            " changes with each event. A key comes from the row, or from the message's key"
        )
    if inside:
        raise CompilationError(
            f"the key column {inside[0]} can't be declared by a path: messages that only say a key"
            " say the whole field"
        )
    of_row = [spec for spec in specs if not is_beside(spec)]
    if keyless and beside and not of_row:
        raise CompilationError(
            f"the change log of {title} is keyless and has only columns from metadata or"
            " headers: its rows are told apart by their own columns, so declare those too"
        )
    if partial and any(spec["field"] == WHOLE_IMAGE for spec in of_row if "path" in spec):
        raise CompilationError(f"the images of {title} are partial: no column can have a whole one")
    follow = arguments.get("follow")
    if follow not in (None, WIDENING):
        raise CompilationError(
            f"the change log of {title} has follow={json.dumps(follow)}: it is {WIDENING} or left"
            " out"
        )
    if follow and keyless:
        raise CompilationError(
            f"the change log of {title} is keyless, so its columns can't follow the source: a row"
            " is told by all of its values"
        )
    reconciles = arguments.get("reconcile_snapshots", False)
    if reconciles and partial:
        raise CompilationError(
            f"the images of {title} are partial: a snapshot's are whole, so reconcile_snapshots"
            " can't be for it"
        )
    by_time = arguments["order_by_source_time"]
    several = namespace is None and any(
        arguments[name] == ANY or not (arguments[name] is None or isinstance(arguments[name], str))
        for name in _SOURCE
    )
    if several and by_time:
        raise CompilationError(
            f"the change log of {title} takes several source tables, whose clocks are not"
            " comparable: it can't be ordered by source time"
        )
    order_by = arguments.get("order_by")
    if order_by is not None:
        _refuse_order(title, several=several, keyless=keyless, by_time=by_time)
        if reconciles:
            raise CompilationError(
                f"the change log of {title} has both order_by and reconcile_snapshots: where a"
                " snapshot has ended is known in Kafka's log, and in no other order. Leave one of"
                " them out"
            )
        order_by = source_order.parts_of(order_by, specs, title)
    said = arguments.get("message_key")
    # Only stated where declared, so that the declarations which older tables keep stay the same.
    more: dict[str, Any] = (
        {} if said is None else {"message_key": message_keys.declared(said, title)}
    )
    more |= {} if order_by is None else {"order_by": order_by}
    more |= {"reconcile_snapshots": True} if reconciles else {}
    return more | {
        "columns": specs,
        "fields": [spec["field"] for spec in of_row],
        "key": [spec["column"] for spec in of_row] if keyless else list(key),
        "conditions": _conditions(arguments),
        "technical": _technical(namespace is not None, several, bool(key) and not keyless),
        "keyless": keyless,
        "partial": partial,
        "namespace": namespace,
        "order_by_source_time": (namespace is not None) if by_time is None else by_time,
        "several_sources": several,
        "sources": _sources(arguments),
        "follow": follow,
    }


def refuse_arguments(macro: str, unknown: Collection[str]) -> None:
    """Raise ``CompilationError`` for arguments that a macro does not have."""
    if unknown:
        name, known = min(unknown), ARGUMENTS[macro]
        raise CompilationError(
            f"{macro} has no argument {name}{did_you_mean(name, known)}: it has"
            f" {', '.join(sorted(known))}"
        )


def _refuse_kinds(macro: str, arguments: Mapping[str, Any]) -> None:
    """Raise ``CompilationError`` for arguments of another type: to Jinja, the text "false" is true,
    and a name that is not defined is false.
    """
    kinds: list[tuple[tuple[str, ...], type | tuple[type, ...], str]] = [
        (_FLAGS, bool, "true or false without quotes"),
        (_TEXTS, str, "a text in quotes"),
    ]
    if macro in ("current_state", "history"):
        kinds.append((_LISTS, (list, tuple, KeysView, Iterator), 'a list like ["total"]'))
    for names, kind, expected in kinds:
        for name in names:
            given = arguments.get(name)
            if given is not None and not isinstance(given, kind):
                is_undefined = isinstance(given, Undefined)
                shown = (
                    ", a name that is not defined,"
                    if is_undefined
                    else f"={json.dumps(given, default=str)}"
                )
                raise CompilationError(f"{macro} has {name}{shown} where {expected} is needed")


def _refuse_order(title: str, *, several: bool, keyless: bool, by_time: bool | None) -> None:
    owner = f"the change log of {title}"
    if several:
        raise CompilationError(
            f"{owner} takes several source tables, whose positions are not comparable: it can't"
            " have order_by"
        )
    if keyless:
        raise CompilationError(
            f"{owner} is keyless: a change that is sent again counts twice, whatever its place. It"
            " can't have order_by"
        )
    if by_time:
        raise CompilationError(
            f"{owner} has both order_by and order_by_source_time: leave one of them out"
        )


def _refuse_twice(names: Sequence[str]) -> None:
    # Spark compares names case-insensitively.
    lower = [name.lower() for name in names]
    twice = [name for name in names if lower.count(name.lower()) > 1]
    if twice:
        raise CompilationError(
            f"a change log can't have its column {twice[0]} twice ({', '.join(twice)}): the key and"
            " the columns have each name once, whatever its case"
        )


def _conditions(arguments: Mapping[str, Any]) -> list[str]:
    namespace = arguments.get("namespace")
    if namespace is None:
        conditions = [f"format not in ({sql_texts(AEROSPIKE_FORMATS)})"]
        wanted = {name: arguments[name] for name in _SOURCE}
    else:
        conditions = [f"format in ({sql_texts(AEROSPIKE_FORMATS)})"]
        wanted = {"source_schema": namespace, "source_table": arguments["set"]}
    for name, value in wanted.items():
        if value is None:
            # An event without the name belongs to no table that has one.
            conditions.append(f"{name} is null")
        elif isinstance(value, str):
            if value != ANY:
                conditions.append(f"{name} = {sql_text(value)}")
        elif not isinstance(value, (list, tuple)) or not all(
            isinstance(each, str) for each in value
        ):
            raise CompilationError(
                f"a change log's {name} is {json.dumps(value, default=str)}: it is a name in"
                ' quotes, a list of such names, or "*" for any'
            )
        elif value:
            conditions.append(f"{name} in ({sql_texts(value)})")
        else:
            raise CompilationError(f'the list of a change log\'s {name} is empty: "*" is any')
    if arguments.get("topic"):
        if problem := unmatched_bracket(arguments["topic"]):
            raise CompilationError(
                f"a change log's topic is {json.dumps(arguments['topic'])}, which is not a regular"
                f" expression: {problem}"
            )
        pattern = f"^(?:{arguments['topic']})$"
        conditions.append(f"topic rlike {sql_text(pattern)}")
    if arguments.get("where"):
        conditions.append(f"({arguments['where']})")
    return conditions


def payload_conditions(log: Mapping[str, Any]) -> list[str]:
    """A log's conditions on payloads, whatever their events are: on format and topic."""
    return [each for each in log["conditions"] if each.startswith(("format ", "topic "))]


def event_conditions(log: Mapping[str, Any]) -> list[str]:
    """The log's conditions on events."""
    return [each for each in log["conditions"] if each not in payload_conditions(log)]


def is_chosen_by_author(log: Mapping[str, Any]) -> bool:
    """Whether a log takes only some events of its source tables, by its author's SQL."""
    return any(each.startswith("(") for each in log["conditions"])


_TEXTS_OF_EVENTS: Final = (
    "record_key",
    "before",
    "after",
    "metadata",
    "error_code",
    "error_detail",
)


def texts_to_choose_by(log: Mapping[str, Any]) -> list[str]:
    """The texts of events that the condition of a log's author (``where``) may name."""
    where = " ".join(each for each in log["conditions"] if each.startswith("(")).lower()
    # A star is all of them, or a multiplication.
    return [each for each in _TEXTS_OF_EVENTS if "*" in where or re.search(rf"\b{each}\b", where)]


def _sources(arguments: Mapping[str, Any]) -> list[list[str | None]] | None:
    if arguments.get("namespace") is not None:
        return [[None, arguments["namespace"], arguments["set"]]]
    named = []
    for name in reversed(_SOURCE):
        value = arguments[name]
        if value == ANY:
            return None
        named.append([value] if value is None or isinstance(value, str) else list(value))
    return [list(source) for source in product(*named)]


def _technical(is_aerospike: bool, several_sources: bool, has_key: bool) -> list[str]:
    if is_aerospike:
        return [
            "source_schema as _namespace",
            "source_table as _set",
            "get_json_object(record_key, '$.digest') as _digest",
            "expires_at as _expires_at",
        ]
    technical = []
    if several_sources:
        technical.append(
            "named_struct('database', source_database, 'schema', source_schema,"
            " 'table', source_table) as _source"
        )
    if has_key:
        technical.append("key_update as _key_update")
    return technical


def fingerprint_of(log: Mapping[str, Any]) -> str | None:
    """A fingerprint of the key that hashes a log's values; None if it hashes none. Raises
    ``ConfigurationError`` if the key is missing.
    """
    is_hashed = any(spec.get("mask") == HASH for spec in log["columns"])
    return fingerprint(mask_key()) if is_hashed else None


def digest(declaration: str) -> str:
    """A digest of a declaration."""
    return md5(declaration.encode(), usedforsecurity=False).hexdigest()


def rows_of(
    log: Mapping[str, Any],
    keys: Sequence[Sequence[str]] = (),
    former: Mapping[str, str] | None = None,
    texts: Sequence[str] = (),
) -> "Log":
    """The declaration that row functions take; ``keys`` and ``former`` as in ``LogRows``, ``texts``
    as in ``Log``.
    """
    # Imported here: it needs pyarrow, without which declarations can be read.
    from python_udfs.typed.declared import Log

    said: dict[str, Any] = {
        "keys": keys,
        "former": None if former is None else sorted(former.items()),
        "texts": texts,
    }
    for name, origin in (("columns", None), ("beside", METADATA), ("headed", HEADERS)):
        said[name] = [spec for spec in log["columns"] if spec.get("from") == origin]
    return msgspec.convert({**log, **said}, Log)


def sources_of(log: Mapping[str, Any]) -> "frozenset[Source] | None":
    """The source tables whose events a log takes; None for any."""
    given = log["sources"]
    return None if given is None else frozenset((a, b, c) for a, b, c in given)


def decoder_name(table: str) -> str:
    """The name by which SQL calls the function that decodes payloads to a change log's events."""
    return f"decode_{_plain(table)}"


def function_name(prefix: str, table: str, of: Any) -> str:
    """The name of a function for a table, made from a declaration. Another declaration gives
    another name, since what a session has compiled with one must not run with the other.
    """
    return f"{prefix}_{_plain(table)}_{digest(msgspec.json.encode(of).decode())[:8]}"


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def rows_function_name(prefix: str, table: str, log: Mapping[str, Any], of: Any) -> str:
    """The name of a function that gives rows of a change log. It also depends on the mask key,
    for a process may see several. Raises ``ConfigurationError`` if that key is missing.
    """
    return function_name(prefix, table, [of, fingerprint_of(log)])
