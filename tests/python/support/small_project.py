"""Small dbt projects of a test's own: a copy of the checkout's without the demo's tables, and with
the models that the test adds. What a model's text looks like stands here and nowhere else.

A project that has macros of its own may call them as we call ours, and ours must not change by
that: so each of these has macros of all of our names, and what a test finds in its tables is
without them.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.declared.namesakes import PUBLIC
from dbt_lakehouse.declared.source_order import position_type
from python_udfs.typed.masks import masked_type
from support.lakes import copy_project

# Where a row of a log of several source tables is from.
SOURCE_TYPE: Final = "struct<database:string,schema:string,table:string>"


def small_project(project: Path, tests: Iterable[str] = (), *, quarantine: bool = False) -> Path:
    """A copy of the project without the demo's tables, and of its data tests only those named;
    without the quarantine unless asked for.
    """
    copy_project(project)
    shared = project / "shared"
    others = [each for each in (shared / "tests").iterdir() if each.stem not in tests]
    if not quarantine:
        others += shared.rglob("quarantined_payloads.*")
    for file in [*(project / "models").glob("*/*.*"), *others]:
        file.unlink()
    settings = project / "dbt_project.yml"
    settings.write_text(settings.read_text().replace("macro-paths: []", "macro-paths: [macros]"))
    add_namesakes(project)
    return project


_NAMESAKE: Final = """
{{% macro {name}() %}}
    {{% do exceptions.raise_compiler_error(
        "called was the project's {name}" ~ (varargs or kwargs or '')
    ) %}}
{{% endmacro %}}
"""


def add_namesakes(project: Path) -> list[str]:
    """Give a project a macro of the name of each of ours, but of those that its models call by
    their plain names and of those that dbt dispatches; their names. Whoever calls one is stopped.
    """
    macros = ROOT / "macros"
    described = [yaml.safe_load(path.read_text()) for path in macros.rglob("*.yml")]
    public = {
        macro["name"]
        for each in described
        for macro in each["macros"]
        if PUBLIC in macro.get("meta", {})
    }
    found = re.findall(r"{%-? *macro +(\w+)", "".join(map(Path.read_text, macros.rglob("*.sql"))))
    # dbt-spark looks up the latter.
    dispatched = ("lakehouse__", "dbt_spark_")
    names = [name for name in found if not name.startswith(dispatched) and name not in public]
    # What all models and tests go through.
    assert {"build_table", "sql_of_test"} < {*names} and public < {*found}
    (project / "macros").mkdir(exist_ok=True)
    texts = (_NAMESAKE.format(name=name) for name in names)
    (project / "macros" / "namesakes.sql").write_text("".join(texts))
    return names


def _call(macro: str, *arguments: str, **named: Any) -> str:
    """The call of a macro, which is all of a model's text. JSON is Jinja."""
    texts = [f"{name}={json.dumps(value)}" for name, value in named.items() if value is not None]
    return f"{{{{ {macro}({', '.join([*arguments, *texts])}) }}}}\n"


def _type(spec: str | Mapping[str, str]) -> str:
    """The type of a column that is declared so."""
    if isinstance(spec, str):
        return spec
    return masked_type(spec["mask"], spec["type"]) if "mask" in spec else spec["type"]


@dataclass(frozen=True)
class Log:
    """What is declared of a source table, or of several: their change log ``<name>_changes``.

    Without ``key``, the table has none. An Aerospike set is its own table, in the namespace
    ``schema``. ``any`` says of database or schema that it doesn't matter.
    """

    name: str
    table: str | Sequence[str]
    key: Mapping[str, str | Mapping[str, str]]
    columns: Mapping[str, str | Mapping[str, str]]
    database: str | None = None
    schema: str | None = None
    is_aerospike: bool = False
    partial: bool = False
    order_by_source_time: bool | None = None
    where: str | None = None
    order_by: str | Sequence[str] | None = None
    reconcile_snapshots: bool = False
    topic: str | None = None
    """Of messages that do not name their table; then ``table`` is of no use."""

    @property
    def model(self) -> str:
        """The name of the change log."""
        return f"{self.name}_changes"

    @property
    def of_several(self) -> bool:
        """Whether it is of several source tables, and so says of each row where it is from."""
        return not isinstance(self.table, str)

    def log_text(self) -> str:
        """The model of the change log."""
        options: dict[str, Any] = {
            "columns": dict(self.columns),
            "partial": self.partial or None,
            "order_by_source_time": self.order_by_source_time,
            "where": self.where,
        }
        if self.order_by is not None:
            options["order_by"] = self.order_by
        if self.is_aerospike:
            return _call("aerospike_change_log", namespace=self.schema, set=self.table, **options)
        table = json.dumps(self.table if isinstance(self.table, str) else [*self.table])
        if self.topic is not None:
            table = f"none, topic={json.dumps(re.escape(self.topic))}"
        return _call(
            "change_log",
            f"source_table={table}",
            source_schema=self.schema,
            source_database=self.database,
            key=dict(self.key) or None,
            keyless=None if self.key else True,
            reconcile_snapshots=self.reconcile_snapshots or None,
            **options,
        )

    def current_state_text(
        self, columns: Sequence[str] | None = None, *, deleted_rows: bool = False
    ) -> str:
        """The model of the current state, of some of the log's columns or of all."""
        return _call(
            "current_state",
            f'ref("{self.model}")',
            columns=columns,
            deleted_rows=deleted_rows or None,
        )

    def history_text(
        self, track_columns: Sequence[str] | None = None, *, bitemporal: bool = False
    ) -> str:
        """The model of the history."""
        return _call(
            "history",
            f'ref("{self.model}")',
            track_columns=track_columns,
            bitemporal=bitemporal or None,
        )

    def current_state_types(self, columns: Sequence[str] | None = None) -> dict[str, str]:
        """The columns of the current state and their types."""
        types = self._row_types(columns)
        if self.key or self.is_aerospike:
            times = {"_occurred_at": "timestamp", "_max_occurred_at": "timestamp"}
            return types | times | {"_position": self._position_type} | self._last_types()
        copies = {"_row": "string", "_copy": "int", "_position": self._position_type}
        return types | copies | self._last_types()

    def history_types(self) -> dict[str, str]:
        """The columns of the history and their types."""
        valid = {"valid_from": "timestamp", "valid_to": "timestamp", "is_current": "boolean"}
        event = {"_occurred_at": "timestamp", "_position": self._position_type}
        return self._row_types(None) | valid | event | self._last_types()

    @property
    def _position_type(self) -> str:
        return position_type(self.order_by is not None)

    def _row_types(self, columns: Sequence[str] | None) -> dict[str, str]:
        aerospike = {"_digest": "string", "_namespace": "string", "_set": "string"}
        wanted = self.columns if columns is None else columns
        chosen = {each: self.columns[each] for each in wanted}
        row = {**(aerospike if self.is_aerospike else self.key), **chosen}
        return {name: _type(each) for name, each in row.items()}

    def _last_types(self) -> dict[str, str]:
        source = {"_source": SOURCE_TYPE} if self.of_several else {}
        return source | ({"_expires_at": "timestamp"} if self.is_aerospike else {})


@dataclass(frozen=True)
class Gold:
    """A gold model: its text, its contract, its data tests."""

    name: str
    text: str
    types: Mapping[str, str]
    data_tests: Sequence[Any] = field(default_factory=list)


def current_state(
    log: Log,
    name: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    deleted_rows: bool = False,
) -> Gold:
    """The current state of a log, with the test that holds it against the reference."""
    name = name or log.name
    refold = {"name": f"{name}_equals_refold"}
    kept = {"_deleted_at": "timestamp"} if deleted_rows else {}
    return Gold(
        name,
        log.current_state_text(columns, deleted_rows=deleted_rows),
        log.current_state_types(columns) | kept,
        [{"equals_refold": refold}] if log.key or log.is_aerospike else [],
    )


def history(
    log: Log, name: str, track_columns: Sequence[str] | None = None, *, bitemporal: bool = False
) -> Gold:
    """The history of a log, with the test that holds it against the reference."""
    arguments = {"current": log.name}
    recorded = {"recorded_from": "timestamp", "recorded_to": "timestamp"} if bitemporal else {}
    return Gold(
        name,
        log.history_text(track_columns, bitemporal=bitemporal),
        log.history_types() | recorded,
        [{"is_history": {"name": f"{name}_is_history", "arguments": arguments}}],
    )


def add_log(project: Path, log: Log) -> None:
    """Write the model of the change log."""
    (project / "models" / "silver" / f"{log.model}.sql").write_text(log.log_text())


def add_gold(project: Path, gold: Gold) -> None:
    """Write a gold model, or write it anew, with its contract."""
    folder = project / "models" / "gold"
    (folder / f"{gold.name}.sql").write_text(gold.text)
    model = {
        "name": gold.name,
        "columns": [{"name": name, "data_type": kind} for name, kind in gold.types.items()],
        "data_tests": [*gold.data_tests],
    }
    # JSON is YAML.
    (folder / f"{gold.name}.yml").write_text(json.dumps({"models": [model]}))


def add_target(project: Path, name: str) -> None:
    """A second target, whose schemas begin with its name."""
    file = project / "profiles" / "profiles.yml"
    profiles = yaml.safe_load(file.read_text())
    outputs = profiles["cdc_lakehouse"]["outputs"]
    outputs[name] = {**outputs["dev"], "schema": name}
    file.write_text(yaml.safe_dump(profiles))


def remove_model(project: Path, name: str) -> None:
    """Take a model out of the project."""
    for file in (project / "models").glob(f"*/{name}.*"):
        file.unlink()
