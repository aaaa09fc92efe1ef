"""The SQL templates of dbt_lakehouse/build: each is rendered for every shape of a table, is told
all that it asks for, and gives one whole statement.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final, cast

import pytest
from jinja2 import UndefinedError, meta

from dbt_lakehouse.build import templates
from dbt_lakehouse.build.decoding import Decoding, added_events
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.log_rows import Log, LogRows
from dbt_lakehouse.build.remembered import values_of
from dbt_lakehouse.build.templates import FOLDER, part, render, union
from dbt_lakehouse.config.topics import topic_rules
from dbt_lakehouse.declared import declarations, fold_of_log
from dbt_lakehouse.declared.columns import quoted
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.declared.message_keys import REFUSAL
from dbt_lakehouse.runs import full_snapshots
from dbt_lakehouse.runs.decisions import Newest, Truncate
from dbt_lakehouse.runs.formats import condition_sql
from dbt_lakehouse.runs.log_input import LogInput
from dbt_lakehouse.runs.taken import TakenEvents, taken

PARTS: Final = frozenset(path.stem for path in FOLDER.glob("*parts.sql"))
AS_OF: Final = "2026-10-02 00:00:00.000000"
TRUNCATE: Final = Truncate("named_struct('offset', 1)", "timestamp_micros(2)", "", is_new=True)


BESIDE: Final = {
    "it's": "string",
    "lsn": {"type": "bigint", "from": "metadata", "path": "source.lsn"},
}
OF_ALL: Final[Mapping[str, Any]] = {
    "columns": {"it's": "string", "tags": "map<string, string>"},
    "topic": None,
    "where": None,
    "keyless": False,
    "partial": False,
    "order_by_source_time": None,
}


def _log(**but: Any) -> Log:
    of: dict[str, Any] = {"key": {"id": "bigint"}, "source_table": "orders"}
    of |= {"source_schema": None, "source_database": None}
    return declarations.change_log({**OF_ALL, **of, **but})


def _log_of_set(**but: Any) -> Log:
    of = {"key": {}, "namespace": "shop", "set": "users"}
    return declarations.change_log({**OF_ALL, **of, **but})


def _fold(**but: Any) -> Fold:
    return fold_of_log.fold(_log(**but))


def _set(**but: Any) -> Fold:
    return fold_of_log.fold(_log_of_set(**but))


FOLDS: Final[Mapping[str, Fold]] = {
    "of a table": _fold(),
    "of a table by source time": _fold(order_by_source_time=True),
    "of several sources": _fold(source_database="*"),
    "of a set": _set(),
    "of partial records": _set(partial=True),
    "of partial records by source time": _set(partial=True, order_by_source_time=True),
    "of key alone": _fold(columns={}),
    "of a composite key": _fold(key={"id": "bigint", "line no": "int"}),
    "with what the source says beside": _fold(columns=BESIDE),
    "by the source's order": _fold(order_by="mysql"),
    "of two times": replace(_fold(), bitemporal=True),
}
KEYLESS: Final[Mapping[str, Fold]] = {
    "of a table": _fold(key={}, keyless=True),
    "of several sources": _fold(key={}, keyless=True, source_database="*"),
    "with what the source says beside": _fold(key={}, keyless=True, columns=BESIDE),
}
OF_METADATA: Final = {"type": "bigint", "from": "metadata", "path": "source.lsn"}
LOGS: Final[Mapping[str, Log]] = {
    "of a table": _log(),
    "of a table by source time": _log(order_by_source_time=True),
    "by the source's order": _log(order_by=["source.lsn", "id"]),
    "of several columns of a key": _log(
        key={"a b": "int", "it's": {"type": "binary", "encoding": "hbase"}},
        columns={"lsn": OF_METADATA, "inside": {"type": "string", "path": "a.b"}},
    ),
    "of partial images": _log(partial=True),
    "of several sources": _log(source_table=["orders", "it's"], topic="a.*"),
    "of any source": _log(source_table="*", source_schema="*", source_database="*"),
    "of some events": _log(where="after like '%1%'"),
    "of key alone": _log(columns={}),
    "without a key": _log(key={}, keyless=True),
    "of a set": _log_of_set(),
    "of partial records": _log_of_set(partial=True, columns={"lsn": OF_METADATA}),
    "of headers": _log(columns={"trace": {"type": "string", "from": "headers", "path": "it's"}}),
}
YES_AND_NO: Final = (True, False)


def _flags(*names: str) -> Iterator[dict[str, bool]]:
    for values in product(YES_AND_NO, repeat=len(names)):
        yield dict(zip(names, values, strict=True))


def gold_statements(fold: Fold) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each template that gold tables use, with arguments of every kind."""
    deletes = "select _digest, _position, _occurred_at, true as _lh_is_new from d"
    deletes_or_none = deletes if fold.namespace else None
    for each in _flags("fills", "doubts", "only_live"):
        for truncates in ("t", None):
            yield (
                "fold",
                {
                    "fold": fold,
                    "events": "e",
                    "truncates": truncates,
                    "as_of": AS_OF,
                    "columns": ["*"],
                    **each,
                },
            )
    for remembered in ("r", None):
        yield "find_truncates", {"fold": fold, "log": "l", "remembered": remembered, "scope": "s"}
    of_sources = {"several_sources": fold.several_sources}
    yield "no_truncates", {**of_sources, "position_type": fold.position_type}
    for found in ([TRUNCATE], [TRUNCATE, TRUNCATE]):
        yield "truncates", {**of_sources, "truncates": values_of(found)}
        yield "unread_keys", {"table": "g", "fold": fold, "truncates": found, "events": "e"}
    for newest, horizon, truncates in product(
        (Newest(None, None), Newest(1, None), Newest(1, 2)), ("2026-01-01", None), ("t", None)
    ):
        yield "late_states", {"newest": newest, "horizon": horizon, "truncates": truncates}
    of_source = {"by_source": bool(fold.order_by)}
    yield "absent_states", {"states": "st", "key": fold.key, **of_source}
    absent = {"deleted_keys": "k", "scope": "s", "states": "select 1 from st", "as_of": AS_OF}
    yield "remember_absent_keys", absent
    yield "reset_absent_keys", {**absent, **of_source}
    for new in (["p"], ["p", "q"]):
        yield (
            "keys_behind_truncates",
            {
                "fold": fold,
                "log": "l",
                "gold": "g",
                "remembered": "r",
                "scope": "s",
                "truncates": new,
            },
        )
    yield "keys_before_truncates", {"key": fold.key, "gold": "g", "truncates": "t"}
    yield "new_keys_before_truncates", {"key": fold.key, "states": "st", "truncates": "t"}
    for to_fill in ({"`a`": None}, {"`a`": None, "`b`": "int"}):
        yield "keys_to_fill", {"key": fold.key, "log": "l", "to_fill": to_fill}
    for may_repeat in YES_AND_NO:
        for condition in ("true", None):
            yield (
                "keys_of",
                {
                    "key": fold.key,
                    "relation": "st",
                    "condition": condition,
                    "may_repeat": may_repeat,
                },
            )
        yield "unsettled_keys", {"keys": "select id from st", "may_repeat": may_repeat}
    yield "first_events", {"key": fold.key, "states": "st"}
    for ranges, truncated_at, columns in product(
        ([], [[":a", ":b"], [":c", ":d"]]), ("p", None), (fold.columns, fold.columns[:1], [])
    ):
        yield (
            "known_states",
            {
                "fold": fold,
                "keys": "u",
                "gold": "g",
                "remembered": "r",
                "scope": "s",
                "columns": columns,
                "ranges": ranges,
                "truncated_at": truncated_at,
            },
        )
    for horizon, last_decides in product(("2026-01-01", None), YES_AND_NO):
        yield (
            "misplaced_keys",
            {
                "fold": fold,
                "first": "select 1",
                "known": "kn",
                "unsettled": "u",
                "horizon": horizon,
                "last_decides": last_decides,
            },
        )
    for misplaced, is_small in product(("m", None), YES_AND_NO):
        yield (
            "events_to_fold",
            {
                "fold": fold,
                "new_events": "select * from n",
                "deletes": deletes_or_none,
                "known": "kn",
                "unsettled": "u",
                "misplaced": misplaced,
                "log": "l",
                "is_small": is_small,
            },
        )
    for each in _flags("leaves", "out_of_order"):
        of = {"table": "g", "fold": fold, "states": "st", "ranges": [[":a", ":b"]], **each}
        yield "merge_refolded_states", of
        for truncated in YES_AND_NO:
            yield "merge_states", {**of, "truncated": truncated}
    yield "expired_keys", {"gold": "g", "as_of": AS_OF}
    yield "first_deletes", {"deletes": deletes}
    yield (
        "keys_hit_by_deletes",
        {"gold": "g", "remembered": "r", "scope": "s", "deletes": deletes},
    )
    yield "purged_keys_hit_by_deletes", {"log": "l", "deletes": deletes, "horizon": AS_OF}
    for set_less in ("d", None) if fold.namespace else (None,):
        yield (
            "lost_states",
            {
                "table": "g",
                "log": "l",
                "key": fold.key,
                "deleted_keys": "k",
                "scope": "s",
                "by_source": bool(fold.order_by),
                "deletes": set_less,
            },
        )
        yield (
            "forget_unknown_keys",
            {
                "deleted_keys": "k",
                "scope": "s",
                "fold": fold.without_columns(),
                "log": "l",
                "deletes": set_less,
            },
        )
    if fold.columns:
        yield "lost_values", {"table": "g", "log": "l", "key": fold.key, "columns": fold.columns}


def history_statements(fold: Fold) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each template that histories use, and the data tests of tables with a key."""
    deletes = "d" if fold.namespace else None
    for keys, track in product(("k", None), (fold.columns[-1:], None)):
        of = replace(fold, track_columns=track or None)
        for events in (
            part("event_parts", "all_events", of, "l", deletes, keys),
            "select * from e",
        ):
            yield "history", {"fold": of, "log": "l", "events": events, "as_of": AS_OF}
        ranges = [] if fold.namespace else [[":a", ":b"]]
        for as_of in (None, *[AS_OF] * bool(fold.namespace)):
            of_own = {"own": "o", "news": "n", "ranges": ranges, "as_of": as_of}
            yield "open_versions", {"fold": of, **of_own}
        yield "judged_news", {"fold": of, "news": "n", "known": "k"}
        tested = {"fold": of, "gold": "g", "keys": keys and "select id from k"}
        of_reference = {**tested, "log": "l", "deletes": deletes, "built_as_of": AS_OF}
        for deleted_rows in YES_AND_NO:
            with_deleted = {"fold": replace(of, deleted_rows=deleted_rows), "table": "t"}
            yield "equals_refold", {**of_reference, **with_deleted}
        yield "is_history", {**of_reference, "history": "h"}
        yield "no_absent_keys", {**tested, "deleted_keys": "k", "scope": "s", "built_as_of": AS_OF}
        yield "unique_key", {"key": fold.key, "gold": "g", "keys": tested["keys"]}
    yield "versions_in_order", {"versions": "select 1 as is_current", "key": fold.key}
    yield "keys_of_events", {"fold": fold, "changes": "l"}
    if fold.namespace:
        yield "keys_of_deletes", {"fold": fold, "deletes": "d"}
        yield "keys_of_remembered_deletes", {"fold": fold, "remembered": "k", "sequence": 7}
        yield "deleted_keys_of_log", {"fold": fold, "deletes": "d", "log": "l"}
        yield "expired_rows", {"own": "o", "is_current": "is_current", "as_of": AS_OF}
    else:
        yield "keys_if_truncated", {"fold": fold, "log": "l", "new": "n"}
    for is_small in YES_AND_NO:
        yield "known_and_news", {"fold": fold, "known": "k", "news": "n", "is_small": is_small}
    yield (
        "events_near_news",
        {
            "fold": fold.without_columns(),
            "before": "b",
            "deletes": deletes,
            "own": "o",
            "judged": "j",
            "log_time": "timestamp_micros(1)",
            "time": "timestamp_micros(2)",
            "day_before": "timestamp_micros(0)",
        },
    )
    yield (
        "with_deleted",
        {"fold": fold, "log": "l", "events": "e", "live": "select 1", "last": "select 2"},
    )


def data_test_statements() -> Iterator[tuple[str, dict[str, Any]]]:
    """The templates of data tests that ask for no fold."""
    key = ["`id`", "`it's`"]
    yield "not_null_columns", {"rows": "r", "columns": key}
    for near in ("topic = 't'", None):
        yield "unique_combination", {"table": "t", "near": near, "columns": key}
        operations = {"operations": ["upsert", "it's"]}
        yield "one_change_per_position", {"table": "t", "near": near, **operations}
    for each in (key, []):
        yield "no_misfits", {"rows": "r", "key": each, "named": "id, it's"}
    for has_whole_image in YES_AND_NO:
        fields = ["it's", "$partial"]
        yield (
            "no_unknown_columns",
            {"events": "e", "fields": fields, "has_whole_image": has_whole_image},
        )
    for topics in ([], ["a", "it's"]):
        yield (
            "undecoded_topics",
            {"events": "e", "quarantined": "q", "decoded": topics, "known": topics},
        )
    yield "tombstone_topics", {"events": "e"}
    yield "topics_that_look_compacted", {"added": "a", "payloads": "p", "earlier": "e"}
    row = {"topic": "'it\\'s'", "payloads": "3"}
    for rows in ([row], [row, row]):
        yield "found_once", {"columns": ["topic", "payloads"], "rows": rows}
    yield "found_nothing", {"query": "select 1"}
    place = {"place": "it's"}
    yield "rows_in_place", {**place, "rows": "r"}
    yield "unread_in_place", {**place, "unread": "u"}
    for of_logs in ("select 1", None):
        of = {"events": "e version as of 1", "own": "o", "given": "false"}
        yield "events_in_place", {**of, "of_logs": of_logs}
    yield "of_payloads", {"events": "(select 1)", "payloads": "p"}


def keyless_statements(fold: Fold) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each template that tables without a key use."""
    for keys in ("k", None):
        for steps in ("select * from s", part("event_parts", "row_steps", fold, "l")):
            yield "current_rows", {"fold": fold, "log": "l", "keys": keys, "steps": steps}
    yield "known_steps", {"fold": fold, "own": "o", "news": "n"}
    yield (
        "steps_near_news",
        {"fold": fold, "before": "b", "own": "o", "news": "n", "log_time": "timestamp_micros(1)"},
    )
    yield "touched_rows", {"fold": fold, "new": "n", "own": "o"}


def other_statements() -> Iterator[tuple[str, dict[str, Any]]]:
    """The templates that ask for no fold."""
    for by_source, replaces in product(YES_AND_NO, YES_AND_NO):
        yield (
            "remember_truncates",
            {
                "deleted_keys": "k",
                "scope": "it's",
                "truncates": values_of([TRUNCATE, TRUNCATE]),
                "by_source": by_source,
                "replaces": replaces,
                "as_of": AS_OF,
            },
        )
    yield "source_places", {"rows": "r"}
    yield "table_properties", {"properties": {"a.b": "it's", "c": "true"}}
    for key in ([], ["`id`", "`n`"]):
        yield "fill_source_places", {"table": "t", "own": "o", "key": key}
    yield "placed_truncates", {"log": "l", "new": "n", "key": "`id`"}
    yield "moved_truncates", {"log": "l", "key": "`id`", "sequence": 3}
    yield "forget_truncates", {"deleted_keys": "k", "scope": "s"}
    yield "newest_known", {"table": "g", "deleted_keys": "k", "scopes": ["a", "it's"]}
    yield "summary", {"as_of": AS_OF, "is_late": "true", "key_values": "array()"}
    yield "summary_of_rebuild", {"states": "st", "deleted_keys": "k", "scopes": ["a"]}
    yield "keys_beyond_log", {"key": ["a", "b"], "misplaced": "m", "known": "k", "log": "l"}
    yield "late_after_purge", {"key": ["a"], "states": "s", "known": "k", "horizon": "2026-01-01"}
    yield "rows_by_key", {"states": "s", "columns": ["a", "b"], "key": ["a"], "ranges": 2}
    yield (
        "record_versions",
        {
            "table": "h",
            "columns": ["id", "valid_from"],
            "own": "o",
            "folded": "f",
            "touched": "t",
            "key": ["id"],
            "as_of": AS_OF,
        },
    )
    yield "lost_copies", {"table": "t", "columns": ["a", "b"], "given": "select 1"}
    yield "lost_rows", {"table": "t", "columns": "c", "other": "o", "other_columns": "d"}
    yield (
        "replace_rows",
        {
            "table": "t",
            "columns": ["a", "b"],
            "own": "o",
            "folded": "f",
            "touched": "k",
            "touched_by": ["a"],
            "identity": ["a", "b"],
        },
    )
    yield "unplaced_news", {"judged": "j"}
    yield "unplaced_steps", {"own": "o", "news": "n"}
    yield (
        "add_versions",
        {
            "table": "h",
            "columns": ["id", "valid_from"],
            "folded": "f",
            "identity": ["id", "valid_from"],
            "ranges": [[":a", ":b"]],
        },
    )
    of_keys = {"log": "l", "key": ["a", "b"], "sequence": 3}
    yield "resting_keys", of_keys
    yield "moved_keys", {**of_keys, "truncates": "select 1"}
    yield "old_states", {"deleted_keys": "k", "as_of": AS_OF, "seconds": 1.5, "sequence": 7}
    yield "forget_old_states", {"deleted_keys": "k", "old": "o"}
    yield "summary_of_purge", {"old": "o"}
    yield "outgrown_numbers", {"rows": "r"}
    yield "rows_without_payloads", {"log": "l", "payloads": "p"}
    for has_headers in YES_AND_NO:
        yield (
            "typed_events",
            {
                "events": "e",
                "function": "f",
                "record_key": "record_key",
                "has_headers": has_headers,
            },
        )
    for relations in (["a"], ["a", "b"]):
        yield "log_events", {"relations": relations, "head": ["event_index", "operation"]}
    yield "merge_state_table", {"table": "t", "rows": "select 1", "key": ["a", "b"]}


EVERY_TABLE: Final = {"source_table": "*", "source_schema": None, "source_database": None}
EVERY_LOG: Final = taken(
    [declarations.change_log({**OF_ALL, **EVERY_TABLE, "key": {"id": "bigint"}})]
)


def event_statements() -> Iterator[tuple[str, dict[str, Any]]]:
    """The templates of other_events and of what reads it."""
    for logs, corrections in product((TakenEvents.nothing(), EVERY_LOG), ("c", None)):
        for format_sql in ("case when a then 'debezium_json' end", "null"):
            yield (
                "other_events",
                {
                    "payloads": "p",
                    "format": format_sql,
                    "look": "look",
                    "corrections": corrections,
                    "taken": logs,
                },
            )
        yield "events_before", {"before": "b", "taken": logs}
        yield "delete_taken", {"events": "o", "taken": logs}
        for comes in YES_AND_NO:
            left = {"comes": comes, "left": "(select 1)"}
            yield "follow_logs", {"events": "o", "taken": logs, **left}
    yield "untaken", {"events": "select 1"}
    yield "set_less_deletes", {"events": "e", "formats": ["aerospike_json", "it's"]}
    for remembered in ("k", None):
        yield "deleted_keys", {"deletes": "d", "remembered": remembered, "as_of": AS_OF}
    for near in ("true", None):
        yield "quarantined_payloads", {"events": "e", "payloads": "p", "near": near}
    yield "positions", {"rows": "r"}
    place = {"topic": "it's", "partition": 0, "first": 1, "last": 2}
    for places, parent in product(([place], [place, place]), ("", "_position.")):
        yield "near_positions", {"places": places, "parent": parent}
    yield "framed_texts", {"payloads": "p"}
    for is_small in YES_AND_NO:
        yield "new_partitions", {"payloads": "p", "is_small": is_small}
    around = {"topic": "'t'", "partition": "0", "first_offset": "7", "first": -993}
    for places in [], [around], [around, around]:
        yield "earlier_log_times", {"payloads": "p", "log_times": "l", "places": places}
    for between in [around], [around, around]:
        yield "partitions_without_earlier", {"earlier": "e", "between": between}
    yield "last_log_times", {"earlier": "e"}
    each = {"topic": "'t'", "partition": "0", "log_time": "null"}
    for carried in [each], [each, each]:
        yield "carried_log_times", {"carried": carried}
    yield "given_log_times", {}
    for given, earlier in (("select 1", "e"), ("select 1", None), (None, None)):
        yield "log_time_corrections", {"payloads": "p", "given": given, "earlier": earlier}
    for log_times in ("l", None):
        yield "unjudged_events", {"payloads": "p", "log_times": log_times, "events": "e"}
    yield "open_tombstones", {"events": "e"}
    yield "judged_tombstones", {"open_tombstones": "t", "events": "e"}
    yield "snapshot_marks", {"events": "e", "mark": full_snapshots.MARK}
    index = {"event_index": -1, "added_by": "snapshot"}
    yield "snapshot_truncates", {"marks": "m", "ended": "s", "events": "e", **index}


def redrive_statements() -> Iterator[tuple[str, dict[str, Any]]]:
    """The templates of what decodes quarantined payloads again."""
    tables = {"payloads": "p", "events": "e", "quarantine": "q"}
    for codes, topics in product(([], ["bad_type", "bad_field"]), ([], ["it's"])):
        yield "redrive_payloads", {**tables, "codes": codes, "topics": topics}
    yield "redrive_events", {"decoded": "d"}
    for logs in ([], ["l"], ["l", "m"]):
        yield "redrive_missing", {"events": "e", "logs": logs}
    yield "redrive_outcome", {}
    for only_invalid in YES_AND_NO:
        yield "delete_redriven", {"relation": "e", "only_invalid": only_invalid}
    yield "quarantine_again", {"quarantine": "q"}
    yield "redriven", {"outcome": {"payloads": 3, "decoded": 2, "events": 5}}


def log_statements(log: Log) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each template that change logs use, with arguments of every kind."""
    rows = LogRows("l", log, Decoding(cast(Lake, None), None, runs=False))
    for refusal, places, has_former in product((REFUSAL, None), ("p", None), YES_AND_NO):
        if not has_former or rows.has_key:
            yield (
                "change_log",
                {
                    "log": log,
                    "events": "e",
                    "refusal": refusal,
                    "places": places,
                    "has_former": has_former,
                },
            )
    names = [spec["column"] for spec in log["columns"]]
    if names:
        yield (
            "fill_from_events",
            {
                "table": "t",
                "rows": "select 1",
                "names": names,
                "columns": quoted(names),
                "lists": ["_changed_columns", *["_unchanged_columns"] * rows.leaves_columns],
                "structs": ["_misfits", *["_key_update"] * rows.has_key],
            },
        )
        yield (
            "fill_from_misfits",
            {
                "table": "t",
                "own": "o",
                "columns": quoted(names),
                "function": "f",
                "leaves_columns": rows.leaves_columns,
            },
        )
    if rows.has_key:
        yield from key_update_statements(log, rows)


def key_update_statements(log: Log, rows: LogRows) -> Iterator[tuple[str, dict[str, Any]]]:
    """The templates that key updates use."""
    key = quoted(log["key"])
    yield "key_updates", {"log": "l", "key": key}
    for by_source in (False, True):
        news = {"updates": "u", "news": "n", "key": key, "by_source": by_source}
        yield "resting_on_news", news
    yield "resting_on", {"updates": "u", "resting": "r", "key": key}
    if columns := rows.value_columns:
        yield (
            "values_before",
            {
                "log": "l",
                "key": key,
                "columns": columns,
                "updates": "u",
                "resting": "r",
                "order_by_source_time": log["order_by_source_time"],
                "several_sources": log["several_sources"],
            },
        )
        yield "rests_on", {"found": "f", "columns": columns}
        yield (
            "take_over_values",
            {
                "table": "t",
                "own": "o",
                "key": key,
                "columns": columns,
                "found": "f",
                "sources": "s",
            },
        )


def statements() -> Iterator[tuple[str, dict[str, Any]]]:
    yield from other_statements()
    for log in LOGS.values():
        yield from log_statements(log)
    yield from event_statements()
    yield from redrive_statements()
    yield from data_test_statements()
    for fold in FOLDS.values():
        yield from gold_statements(fold)
        yield from history_statements(fold)
    for fold in KEYLESS.values():
        yield from keyless_statements(fold)


# What may follow a value, or precede one, with nothing else between them; the last one is the name
# of a lateral view.
WORDS: Final = frozenset(
    """
    and anti as between by case cross current delete desc distinct else end except false filter
    from full group having in inner insert into is join lateral left like matched merge not null
    nulls of on or order over partition preceding rows select semi set sort step then timestamp true
    global hour interval leading limit replace rlike temporary trailing unbounded union update using
    values version view when where with
    event
    """.split()
)


# Comments, texts and names.
NO_CODE: Final = re.compile(r"""--[^\n]*|'(?:[^'\\]|\\.)*'|"[^"]*"|`[^`]*`""")


@cache
def comments() -> frozenset[str]:
    """The comments that templates have: each is a line of its own."""
    texts = [path.read_text() for path in FOLDER.glob("*.sql")]
    return frozenset(each.strip() for text in texts for each in re.findall(r"(?m)^ *(--.*)$", text))


def faults(sql: str) -> list[str]:
    """What no statement has: an open bracket, a comma before the end of a list, nothing between two
    values, a comment that swallows what follows it, Python's words, blanks at the end of a line.
    """
    found = []
    bare = NO_CODE.sub(lambda found: "" if found[0].startswith("--") else "x", sql)
    if bare.count("(") != bare.count(")"):
        found.append("brackets")
    if re.search(r",\s*(?:\)|from\b|where\b|group by\b|,|$)", bare):
        found.append("comma")
    if re.search(r"\bNone\b|\bTrue\b|\bFalse\b|Undefined", bare):
        found.append("Python")
    if re.search(r"\b(?:and|or|where|union|union all|from|,)\s*(?:\)|$)", bare):
        found.append("end")
    tokens = re.findall(r"[\w.:]+|\S", bare)
    if any(
        re.match(r"[\w.]*\w$|\)$", one) and re.match(r"\w", other) and not WORDS & {one, other}
        for one, other in pairwise(tokens)
    ):
        found.append("between")
    if not {each.strip() for each in re.findall(r"--.*", sql)} <= comments():
        found.append("comment")
    return found


@pytest.mark.parametrize("name", sorted({name for name, _ in statements()}))
def test_a_template_gives_a_whole_statement(name: str) -> None:
    rendered = [render(each, **given) for each, given in statements() if each == name]
    assert {sql: found for sql in rendered if (found := faults(sql))} == {}


@pytest.mark.parametrize("fold", FOLDS.values(), ids=FOLDS)
def test_parts_are_whole(fold: Fold) -> None:
    deletes = "d" if fold.namespace else None
    for keys in ("k", None):
        assert faults(part("event_parts", "log_events", fold, "l", deletes, keys)) == []
        assert faults(part("event_parts", "all_events", fold, "l", deletes, keys)) == []
    assert faults(part("event_parts", "truncates", fold, "l")) == []


FORMATS: Final[Mapping[str, Any]] = {
    "of no topic": None,
    "of a topic": [{"topic": "it's", "format": "debezium_json"}],
    "of a topic that lands as another": [
        {"topic": "a", "land_as": "b", "format": "debezium_json"},
        {"pattern": "c.*", "format": "maxwell_json"},
    ],
    "of messages": [
        {"topic": "a", "format": "debezium_avro", "when": {"first_byte": 0}},
        {"topic": "a", "format": "debezium_json", "when": {"header": "h", "is": "it's"}},
    ],
}


@pytest.mark.parametrize("topics", FORMATS.values(), ids=FORMATS)
def test_a_format_is_a_whole_expression(topics: Any) -> None:
    rules = [(rule, rule.when and condition_sql(rule.when)) for rule in topic_rules(topics)]
    found = part("payload_parts", "payload_format", rules)
    assert faults(found) == []
    assert faults(part("payload_parts", "formatted", "p", found)) == []
    assert found.count("then") == len(rules)


@pytest.mark.parametrize("added", ["a", None])
@pytest.mark.parametrize("payloads", ["p", None])
@pytest.mark.parametrize("optional", ["o", None])
def test_what_is_read_of_events_is_a_whole_relation(
    added: str | None, payloads: str | None, optional: str | None
) -> None:
    topics = None if optional is None else ["it's", "b"]
    read = LogInput(
        payloads=payloads,
        topics=topics,
        format="f",
        added=added,
        log_times=optional,
        excluded=optional,
        may_name=optional,
        none="n",
    )
    decoding = Decoding(cast(Lake, None), None, runs=False)
    for conditions in ([], ["b", "c"]):
        found = decoding.events_of(read, conditions, conditions)
        assert faults(found) == []
        assert ("from n where false" in found) == (added is None and payloads is None)
        assert "_lh_headers" not in found
        for bronze in ("b", None):
            of = replace(read, bronze=bronze)
            headed = added_events(of, conditions, ["it's", "h"])
            assert faults(headed) == []
            # Without redriven payloads, those that were read before are left alone.
            assert ("left join" in headed) == (bronze is not None)
            assert headed.count("header.key in ('it\\'s', 'h')") == (bronze is not None)


@pytest.mark.parametrize("format", ["'maxwell_json'", "case when true then 'debezium_json' end"])
def test_a_function_gets_the_headers_that_it_reads_alone(format: str) -> None:
    """And where there are none, an empty array and not null."""

    def message(*headers: str) -> str:
        return part("payload_parts", "message_of", format, [*headers])

    assert faults(message()) == faults(message("it's")) == []
    assert ("headers" in message()) == ("debezium" in format)
    assert "filter" not in message()
    assert "filter(headers, header -> header.key in ('it\\'s', 'b'))" in message("it's", "b")
    for found in (message("a"), message()):
        assert found.count("headers is") == 0 or "array()" in found
    events = part("payload_parts", "events_in", "p", format, "f", ["x"], headers=["a"])
    assert faults(events) == [] and "filter(headers" in events


def test_every_template_is_rendered_here() -> None:
    files = {path.stem for path in FOLDER.glob("*.sql")} - PARTS
    assert files == {name for name, _ in statements()}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sql")), ids=lambda path: path.stem)
def test_a_template_is_told_what_it_asks_for(path: Path) -> None:
    asked = meta.find_undeclared_variables(templates.parsed(path.stem)) - {
        "operations_of_rows",
        "operations_with_row",
        *PARTS,
    }
    given = [{*arguments} for name, arguments in statements() if name == path.stem]
    # A part is told by the arguments of its macros.
    assert asked == set().union(*given) if given else asked == set()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sql")), ids=lambda path: path.stem)
def test_a_template_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("{#")
    assert max(map(len, text.splitlines())) <= 100


def test_a_name_that_is_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="scope"):
        render("forget_truncates", deleted_keys="k")
    with pytest.raises(UndefinedError, match="_known_tim"):
        templates.of_folder(FOLDER).from_string("{{ parts._known_tim() }}").render()


def test_lists_of_columns_are_expressions() -> None:
    lists = templates.of_folder(FOLDER).from_string(
        "{{ key | each('a.{} = b.{}') | join(' and ') }};{{ key | lines }};"
        "{{ key | lines_with_commas }};{{ no | lines_with_commas }};"
        "{{ rows | tuples('x', 'y') | lines }}"
    )
    found = lists.render(key=["`{}`", "`c`"], no=[], rows=[{"y": "2", "x": "'1'"}])
    assert found == "a.`{}` = b.`{}` and a.`c` = b.`c`;`{}`,\n`c`;`{}`,\n`c`,;;('1', 2)"


def test_queries_that_are_missing_are_left_out_of_a_union() -> None:
    assert union(["a", None, "b"]) == "a\nunion all\nb"
    assert union(["a", "b"], "union") == "a\nunion\nb"
    assert union([None, "a"]) == "a" and union([None]) == ""


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ("select (a from t", "brackets"),
        ("select a, from t", "comma"),
        ("select a, f(b) f(c) from t", "between"),
        ("select a from t where t.b = a t.c = a", "between"),
        ("select None from t", "Python"),
        ("select a from t where", "end"),
        ("-- why select a from t", "comment"),
        ("select 'a, from' from `(`", None),
    ],
)
def test_a_fault_is_found(sql: str, fault: str | None) -> None:
    assert faults(sql) == ([] if fault is None else [fault])
