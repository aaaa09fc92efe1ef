"""Models that dbt compiles. `dbt show` and unit tests see the SQL that a run executes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dbt_lakehouse.build.context import Context
from dbt_lakehouse.build.decoding import Decoding
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.runs.model_run import NodeRun
from dbt_lakehouse.runs.source_filter import Wanted

# With more positions, the condition would cost more than it saves.
_MOST_PLACES: Final = 100


@dataclass(frozen=True, slots=True)
class Compiled:
    """A node that dbt compiles."""

    lake: Lake
    context: Context

    @property
    def decoding(self) -> Decoding:
        """How payloads are decoded for the node: by ``vars.topics``, which a unit test may
        override.
        """
        return Decoding(self.lake, self.context.var("topics"), self.context.is_decoding)

    @property
    def as_of(self) -> str:
        """The moment of the command as text, see ``moments``."""
        return self.lake.runs.moment(self.context.var("as_of"))


@dataclass(frozen=True, slots=True)
class Compiling(Compiled):
    """A model that dbt compiles to run it, to show it, or for a unit test.

    ``reads`` maps names to the relations that it reads, ``declared`` is the part of the
    declaration that its meta keeps.
    """

    reads: Mapping[str, Any]
    declared: Mapping[str, Any]

    @property
    def this(self) -> Any:
        """The relation of the model."""
        return self.context.this

    @property
    def is_building(self) -> bool:
        """Whether the model is run, and not only compiled."""
        return self.context.is_building

    def begin_run(
        self,
        upstreams: Sequence[Any],
        of: Fold | None = None,
        *,
        merges: bool = False,
        refolds: bool = False,
        wanted: Wanted = None,
    ) -> NodeRun:
        """Begin the run of a model: find the new rows for its table, see ``NodeRun``."""
        return self.lake.runs.begin_run(
            self.this,
            upstreams,
            of,
            self.context.is_full_refresh,
            merges=merges,
            refolds=refolds,
            wanted=wanted,
        )

    def new_rows(self, upstream: Any, wanted: Wanted = None) -> str:
        """The rows of an append-only table that are new to the model's table, to select from; for
        a model that is not run, all rows. A run begins with this call.
        """
        if not self.is_building:
            return str(upstream)
        return self.begin_run([upstream], wanted=wanted).rows(upstream)


def new_rows(of: Compiling) -> str:
    """The public macro of this name. It refuses a table without row lineage, which a project's own
    may be.
    """
    if of.is_building:
        of.lake.runs.refuse_earlier_version(of.reads["rows"])
    return of.new_rows(of.reads["rows"], of.reads["wanted"])


def near_positions(lake: Lake, rows: str, parent: str = "") -> str:
    """A condition that holds for all rows at the positions of some other rows. It lets Spark skip
    files without such positions, for which it needs literals.

    ``rows`` is a relation with topic, partition and offset, of which few are expected; ``parent``
    the struct that holds these columns in the rows to find, with a point. A command that only
    compiles does not query the lake, which would start Spark.
    """
    if lake.only_compiles:
        return "true"
    places = [json.loads(row["place"]) for row in lake.sql.query(render("positions", rows=rows))]
    if not places:
        # Without parentheses: `where (false)` would be a name for the table.
        return "false"
    if len(places) > _MOST_PLACES:
        return "true"
    return render("near_positions", places=places, parent=parent)
