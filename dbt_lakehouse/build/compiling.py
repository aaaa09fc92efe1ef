"""A model of the lake's own that dbt compiles: what is shown or tested of it is what runs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dbt_lakehouse.build.decoding import Decoding
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.runs.source_filter import Wanted

# Of more, a condition would take longer than what it spares.
_MOST_PLACES: Final = 100


@dataclass(frozen=True, slots=True)
class Compiling:
    """A model that dbt compiles: to run it, to show it, or for a unit test.

    ``reads`` has the relations that it reads by their names, and ``decoding`` how payloads are
    decoded for it. ``goes_on``: of a model that is not run, whether its SQL is to be that of a
    table that is there. With ``anew``, one that is run makes its table anew whatever there is.
    """

    lake: Lake
    this: Any
    reads: Mapping[str, Any]
    decoding: Decoding
    is_building: bool
    goes_on: bool
    anew: bool

    def new_rows(self, upstream: Any, wanted: Wanted = None) -> str:
        """The rows of an append-only table that are new to the model's table, to select from; of a
        model that is not run, all of them. Its run begins by that.
        """
        if not self.is_building:
            return str(upstream)
        run = self.lake.runs.begin_run(self.this, [upstream], None, self.anew, wanted=wanted)
        return run.rows(upstream)


def near_positions(lake: Lake, rows: str, parent: str = "") -> str:
    """A condition that holds for all rows with the positions of some others: what spares a look at
    the files without any. Literals, for Spark passes over files by nothing else.

    ``rows`` is a relation with topic, partition and offset, of which few are expected; ``parent``
    the struct in which the rows that are looked for have theirs, with a point.
    """
    places = [json.loads(row["place"]) for row in lake.sql.query(render("positions", rows=rows))]
    if len(places) > _MOST_PLACES:
        return "true"
    return render("near_positions", places=places, parent=parent)
