"""A model that dbt compiles: what is shown or tested of it is what runs."""

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

# Of more, a condition would take longer than what it spares.
_MOST_PLACES: Final = 100


@dataclass(frozen=True, slots=True)
class Compiled:
    """A node that dbt compiles."""

    lake: Lake
    context: Context

    @property
    def decoding(self) -> Decoding:
        """How payloads are decoded for it: by ``vars.topics``, of which a unit test may have
        others.
        """
        return Decoding(self.lake, self.context.var("topics"), self.context.is_decoding)

    @property
    def as_of(self) -> str:
        """The moment of the command as text, see ``moments``."""
        return self.lake.runs.moment(self.context.var("as_of"))


@dataclass(frozen=True, slots=True)
class Compiling(Compiled):
    """A model that dbt compiles: to run it, to show it, or for a unit test.

    ``reads`` has the relations that it reads by their names, ``declared`` what its meta keeps of
    its declaration. ``goes_on``: of a model that is not run, whether its SQL is to be that of a
    table that is there.
    """

    reads: Mapping[str, Any]
    declared: Mapping[str, Any]
    goes_on: bool

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
        """Find out what is new to the table of a model that is run, see ``NodeRun``."""
        return self.lake.runs.begin_run(
            self.this,
            upstreams,
            of,
            self.context.makes_anew,
            merges=merges,
            refolds=refolds,
            wanted=wanted,
        )

    def new_rows(self, upstream: Any, wanted: Wanted = None) -> str:
        """The rows of an append-only table that are new to the model's table, to select from; of a
        model that is not run, all of them. Its run begins by that.
        """
        if not self.is_building:
            return str(upstream)
        return self.begin_run([upstream], wanted=wanted).rows(upstream)


def new_rows(of: Compiling) -> str:
    """The public macro of this name."""
    return of.new_rows(of.reads["rows"], of.reads["wanted"])


def near_positions(lake: Lake, rows: str, parent: str = "") -> str:
    """A condition that holds for all rows with the positions of some others: what spares a look at
    the files without any. Literals, for Spark passes over files by nothing else.

    ``rows`` is a relation with topic, partition and offset, of which few are expected; ``parent``
    the struct in which the rows that are looked for have theirs, with a point. A command that only
    compiles asks nothing of the lake, which would start Spark.
    """
    if lake.only_compiles:
        return "true"
    places = [json.loads(row["place"]) for row in lake.sql.query(render("positions", rows=rows))]
    if len(places) > _MOST_PLACES:
        return "true"
    return render("near_positions", places=places, parent=parent)
