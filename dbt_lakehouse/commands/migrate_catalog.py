"""`lakehouse migrate-catalog`: the lake's tables and views in another catalog, by their metadata.

No file is rewritten or copied. The other catalog is told where each table's metadata is, so the
table there is the same one: its UUID, its snapshots with what they note, its properties. A view has
no data; it is created anew.

While it works both catalogs are closed, and in the end the old one has no entries any more: whoever
still writes by it, with whatever program, finds no table. Each step can be repeated, so a call that
was broken off is ended by the next.
"""

import json
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JJavaError

from dbt_lakehouse.config.project import Project, load, lock_patience
from dbt_lakehouse.errors import ConfigurationError, LockedError, SessionError
from dbt_lakehouse.lake.catalog import CATALOG, CATALOG_TYPE, CATALOG_URI, absolute, properties
from dbt_lakehouse.lake.closing import close, closed, reopen
from dbt_lakehouse.lake.damage import refuse_damage
from dbt_lakehouse.lake.iceberg import java_class, lake_catalog
from dbt_lakehouse.lake.leases import TABLE as LEASES
from dbt_lakehouse.lake.locks import landing_lock, run_lock, running_streams
from dbt_lakehouse.lake.tables import Table, parse
from dbt_lakehouse.spark.java_errors import error_text, without_secrets
from dbt_lakehouse.spark.session import start_session
from dbt_lakehouse.texts import counted

_WORK: Final = "lakehouse migrate-catalog"


class Migration(NamedTuple):
    """What a call has done."""

    target: str
    tables: dict[str, str]
    """What became of each table and view, by ``schema.name``."""

    def json(self) -> str:
        """For scripts."""
        return json.dumps(self._asdict())

    def text(self) -> str:
        """For people."""
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

    Raises ``ConfigurationError`` if something else is there, ``LockedError`` if a command is at
    work, and ``SessionError`` if the other catalog can't be used.
    """
    other = load(project.options._replace(target=target))
    there = absolute(other.parameters, other.root)
    here = absolute(project.parameters, project.root)
    spark = start_session(project.parameters, project.root)
    old = _Catalog(lake_catalog(spark), _address(here))
    if not old.schemas:
        raise ConfigurationError(f"there is no lake in {old.address} yet: `dbt build`")
    patience = lock_patience(project.variables)
    with run_lock(spark).held(_WORK, patience), landing_lock(spark).held(_WORK, patience):
        if streams := running_streams(spark):
            raise LockedError(f"{streams[0]} is at work on this lake: stop it first")
        for name in old.names():
            refuse_damage(spark, name)
        try:
            new = _Catalog(_opened(spark, there), _address(there))
            return Migration(target, _move(old, new))
        except Py4JJavaError as error:
            raise SessionError(
                f"the lake can't be moved to target {target}: {error_text(error)}: look at"
                f" spark.sql.catalog.{CATALOG}.* of that target (docs/catalogs.md), and call again"
            ) from error


class _Catalog:
    """A catalog of Iceberg's, and its address without secrets."""

    def __init__(self, java: Any, address: str) -> None:
        self.java = java
        self.address = address

    @property
    def schemas(self) -> dict[str, Any]:
        """Its schemas by name, bronze first: nobody may find the others without it."""
        found = {str(each): each for each in self.java.listNamespaces()}
        return dict(sorted(found.items(), key=lambda each: (each[0] != "bronze", each[0])))

    def tables(self) -> dict[str, Any]:
        """The identifiers of its tables by name; of the leases each catalog has its own."""
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
        CATALOG, properties(settings), spark._jsc.hadoopConfiguration()
    )


def _address(settings: dict[str, str]) -> str:
    uri = without_secrets(settings.get(CATALOG_URI, "").partition("?")[0])
    return f"{settings.get(CATALOG_TYPE)} {uri}"


def _move(old: _Catalog, new: _Catalog) -> dict[str, str]:
    tables, views = old.tables(), old.views()
    moved = (
        f"the lake has moved from {old.address} to {new.address}: take the target of the profile"
        f" that has it. If `{_WORK}` was broken off, call it again"
    )
    on_its_way = f"the lake is on its way from {old.address} to {new.address}: `{_WORK}`, once more"
    reason = closed(old.java)
    if reason not in (None, moved) or not (tables or views or closed(new.java) == on_its_way):
        raise ConfigurationError(reason or f"there is no table in {old.address}")
    # All is looked at before anything is changed.
    there, never_written = set(), set()
    for name in tables.keys() & new.tables().keys():
        state = _state(new.java, tables[name])
        if state == _state(old.java, tables[name]):
            there.add(name)
        elif not state.chain:
            # Who opens the lake by an empty catalog makes bronze's.
            never_written.add(name)
        else:
            raise ConfigurationError(
                f"{new.address} has another table {name}: move to an empty catalog, or drop what"
                " is there"
            )
    close(old.java, moved)
    # By whatever address: its entries would be dropped.
    if closed(new.java) == moved:
        reopen(old.java)
        raise ConfigurationError(f"{new.address} is the catalog that the lake is in")
    for name, schema in old.schemas.items():
        if not new.java.namespaceExists(schema):
            new.java.createNamespace(schema, _described(old.java, schema))
        if name == "bronze":
            close(new.java, on_its_way)
    done = {}
    for name, table in tables.items():
        done[name] = "is there already"
        if name in never_written:
            new.java.dropTable(table, False)
        if name not in there:
            metadata = old.java.loadTable(table).operations().current().metadataFileLocation()
            new.java.registerTable(table, metadata)
            done[name] = "registered"
        state = _state(new.java, table)
        if state != _state(old.java, table):
            raise ConfigurationError(f"{name} is not the same table in {new.address}")
        done[name] += f", {counted(len(state.chain), 'snapshot')}"
    for name, view in views.items():
        done[name] = "is there already"
        if not new.java.viewExists(view):
            _create_view(new.java, view, old.java.loadView(view))
            done[name] = "view created"
    if missing := {*tables, *views} - {*new.names()}:
        raise ConfigurationError(f"{new.address} lacks {', '.join(sorted(missing))}")
    for table in tables.values():
        old.java.dropTable(table, False)
    for view in views.values():
        old.java.dropView(view)
    reopen(new.java)
    return done


def _state(catalog: Any, table: Any) -> Table:
    """What a table is, down to its snapshots and what they note."""
    metadata = catalog.loadTable(table).operations().current()
    return parse(java_class("org.apache.iceberg.TableMetadataParser").toJson(metadata))


def _described(catalog: Any, schema: Any) -> dict[str, str]:
    """The properties of a schema that are not of the catalog it is in."""
    found = dict(catalog.loadNamespaceMetadata(schema))
    return {
        name: value
        for name, value in found.items()
        if name not in ("location", "exists") and not name.startswith("lakehouse.")
    }


def _create_view(catalog: Any, identifier: Any, view: Any) -> None:
    version = view.currentVersion()
    builder = (
        catalog.buildView(identifier)
        .withSchema(view.schema())
        .withDefaultNamespace(version.defaultNamespace())
        .withDefaultCatalog(version.defaultCatalog())
        .withProperties(view.properties())
        .withLocation(view.location())
    )
    for each in version.representations():
        builder.withQuery(each.dialect(), each.sql())
    builder.create()
