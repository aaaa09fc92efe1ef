"""`lakehouse migrate-catalog`: move the lake's tables and views to another catalog, by their
metadata.

No file is rewritten or copied. The other catalog is told where each table's metadata is, so the
table there is the same one: its UUID, its snapshots with their summaries, its properties. A view
has no data; it is created again.

During the migration both catalogs are closed, and at the end the old one has no entries any more:
a program that still writes by it finds no table. Each step can be repeated, so the next call
completes an interrupted one.
"""

import json
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JJavaError

from dbt_lakehouse.errors import ConfigurationError, LockedError, SessionError
from dbt_lakehouse.lake.broken_metadata import refuse_damage
from dbt_lakehouse.lake.catalog import CATALOG, CATALOG_URI, absolute, properties, require_file
from dbt_lakehouse.lake.iceberg import lake_catalog
from dbt_lakehouse.lake.leases import TABLE as LEASES
from dbt_lakehouse.lake.locks import landing_lock, run_lock, running_streams
from dbt_lakehouse.lake.moved_catalog import close, closed, reopen
from dbt_lakehouse.lake.tables import Table, parse
from dbt_lakehouse.lake.wholeness import BEGUN, LAKE
from dbt_lakehouse.redaction import without_secrets
from dbt_lakehouse.session.opening import start_session
from dbt_lakehouse.session.project import Project, load, lock_patience
from dbt_lakehouse.session.troubles import error_text
from dbt_lakehouse.spark.jvm import hadoop_settings, java_class
from dbt_lakehouse.telling import working
from dbt_lakehouse.texts import counted

_WORK: Final = "lakehouse migrate-catalog"
_SAME: Final = "{} is the catalog that the lake is in"


class Migration(NamedTuple):
    """The result of a call."""

    target: str
    tables: dict[str, str]
    """The result for each table and view, by ``schema.name``."""

    def json(self) -> str:
        """As JSON, for scripts."""
        return json.dumps(self._asdict())

    def text(self) -> str:
        """As text."""
        lines = [f"{name}: {done}" for name, done in self.tables.items()]
        return "\n".join(
            [
                *lines,
                f"{counted(len(lines), 'table')} moved. next: `target: {self.target}` in"
                " profiles.yml, in every checkout; the old catalog is closed",
            ]
        )


def migrate_catalog(project: Project, target: str) -> Migration:
    """Move the lake of the project's target to the catalog of another target of its profile.

    Raises ``ConfigurationError`` if the other catalog has something else, ``LockedError`` if a
    command is running, and ``SessionError`` if the other catalog can't be used.
    """
    other = load(project.options._replace(target=target))
    there = absolute(other.parameters, other.root)
    here = absolute(project.parameters, project.root)
    if properties(there) == properties(here):
        raise ConfigurationError(_SAME.format(_address(there)))
    # An interrupted call may have left it closed.
    require_file(here)
    spark = start_session(project.parameters, project.root)
    old = _Catalog(lake_catalog(spark), _address(here))
    if not old.schemas:
        raise ConfigurationError(f"there is no lake in {old.address} yet: `dbt build`")
    patience = lock_patience(project.variables)
    with run_lock(spark).held(_WORK, patience), landing_lock(spark).held(_WORK, patience):
        if streams := running_streams(spark):
            raise LockedError(f"{streams[0]} is at work on this lake: stop it first")
        with working("looking for damage"):
            for name in old.names():
                refuse_damage(spark, name)
        try:
            with working("opening the other catalog"):
                new = _Catalog(_opened(spark, there), _address(there))
            return Migration(target, _move(old, new))
        except Py4JJavaError as error:
            raise SessionError(
                f"the lake can't be moved to target {target}: {error_text(error)}: look at"
                f" spark.sql.catalog.{CATALOG}.* of that target (docs/catalogs.md), and call again"
            ) from error


class _Catalog:
    """An Iceberg catalog, and its address without secrets."""

    def __init__(self, java: Any, address: str) -> None:
        self.java = java
        self.address = address

    @property
    def schemas(self) -> dict[str, Any]:
        """Its schemas by name, bronze first: without it, the others must not be found."""
        found = {str(each): each for each in self.java.listNamespaces()}
        return dict(sorted(found.items(), key=lambda each: (each[0] != "bronze", each[0])))

    def tables(self) -> dict[str, Any]:
        """The identifiers of its tables by name, without the leases, which each catalog has for
        itself.
        """
        found = [each for schema in self.schemas.values() for each in self.java.listTables(schema)]
        return {str(each): each for each in found if f"{CATALOG}.{each}" != LEASES}

    def views(self) -> dict[str, Any]:
        """The identifiers of its views by name."""
        found = [each for schema in self.schemas.values() for each in self.java.listViews(schema)]
        return {str(each): each for each in found}

    def names(self) -> list[str]:
        """Its tables and views."""
        return [*self.tables(), *self.views()]


def _opened(spark: Any, settings: dict[str, str]) -> Any:
    """The catalog with these settings."""
    return java_class("org.apache.iceberg.CatalogUtil").buildIcebergCatalog(
        CATALOG, properties(settings), hadoop_settings(spark.sparkContext)
    )


def _address(settings: dict[str, str]) -> str:
    return without_secrets(settings.get(CATALOG_URI, "").partition("?")[0])


def _move(old: _Catalog, new: _Catalog) -> dict[str, str]:
    """Move the entries. Returns the result for each table and view."""
    tables, views = old.tables(), old.views()
    done: dict[str, str] = {}
    total = counted(len(tables) + len(views), "table")
    with working("moving the lake", lambda: f"{len(done):,} of {total}"):
        _move_entries(old, new, tables, views, done)
    return done


def _move_entries(
    old: _Catalog,
    new: _Catalog,
    tables: dict[str, Any],
    views: dict[str, Any],
    done: dict[str, str],
) -> None:
    moved = (
        f"the lake has moved from {old.address} to {new.address}: take the target of the profile"
        f" that has it. If `{_WORK}` was broken off, call it again"
    )
    on_its_way = f"the lake is on its way from {old.address} to {new.address}: `{_WORK}`, once more"
    reason = closed(old.java)
    if reason not in (None, moved) or not (tables or views or closed(new.java) == on_its_way):
        raise ConfigurationError(reason or f"there is no table in {old.address}")
    never_written = _refuse_others(old, new)
    close(old.java, moved)
    # The same catalog under another address: its entries would be dropped.
    if closed(new.java) == moved:
        reopen(old.java)
        raise ConfigurationError(_SAME.format(new.address))
    for name, schema in old.schemas.items():
        if not new.java.namespaceExists(schema):
            new.java.createNamespace(schema, _described(old.java, schema))
        if name == "bronze":
            close(new.java, on_its_way)
    for table in never_written:
        new.java.dropTable(table, False)
    for name, table in tables.items():
        done[name] = _register(old, new, table)
    for name, view in views.items():
        done[name] = _create_view(old, new, view)
    if missing := done.keys() - {*new.names()}:
        raise ConfigurationError(f"{new.address} lacks {', '.join(sorted(missing))}")
    # Only now, so that a table is always in one of the catalogs.
    for table in tables.values():
        old.java.dropTable(table, False)
    for view in views.values():
        old.java.dropView(view)
    reopen(new.java)


def _refuse_others(old: _Catalog, new: _Catalog) -> list[Any]:
    """Raise ``ConfigurationError`` if the new catalog has another table of the same name. Tables
    that were never written to are allowed, and returned: to open a lake by an empty catalog
    creates bronze's.
    """
    tables, never_written = old.tables(), []
    for name in tables.keys() & new.tables().keys():
        state = _state(new, tables[name])
        if state == _state(old, tables[name]):
            continue
        if state.chain:
            raise ConfigurationError(
                f"{new.address} has another table {name}: move to an empty catalog, or drop that"
                " table"
            )
        never_written.append(tables[name])
    return never_written


def _register(old: _Catalog, new: _Catalog, table: Any) -> str:
    """Register a table in the new catalog, if it is missing. Returns what was done, in words."""
    done = "is there already"
    if not new.java.tableExists(table):
        metadata = old.java.loadTable(table).operations().current()
        new.java.registerTable(table, metadata.metadataFileLocation())
        done = "registered"
    state = _state(new, table)
    if state != _state(old, table):
        raise ConfigurationError(f"{table} is not the same table in {new.address}")
    return f"{done}, {counted(len(state.chain), 'snapshot')}"


def _create_view(old: _Catalog, new: _Catalog, identifier: Any) -> str:
    """Create a view in the new catalog, if it is missing. Returns what was done, in words."""
    if new.java.viewExists(identifier):
        return "is there already"
    view = old.java.loadView(identifier)
    version = view.currentVersion()
    builder = (
        new.java.buildView(identifier)
        .withSchema(view.schema())
        .withDefaultNamespace(version.defaultNamespace())
        .withDefaultCatalog(version.defaultCatalog())
        .withProperties(view.properties())
        .withLocation(view.location())
    )
    for each in version.representations():
        builder.withQuery(each.dialect(), each.sql())
    builder.create()
    return "view created"


def _state(catalog: _Catalog, table: Any) -> Table:
    """The state of a table, including its snapshots and their summaries."""
    metadata = catalog.java.loadTable(table).operations().current()
    return parse(java_class("org.apache.iceberg.TableMetadataParser").toJson(metadata))


def _described(catalog: Any, schema: Any) -> dict[str, str]:
    """The properties of a schema that do not depend on its catalog."""
    found = dict(catalog.loadNamespaceMetadata(schema))
    return {
        name: value
        for name, value in found.items()
        if name in (BEGUN, LAKE)
        or (name not in ("location", "exists") and not name.startswith("lakehouse."))
    }
