"""The sums that must agree, and the messages for those that don't."""

from dbt_lakehouse.commands.status.facts import Link, Outcome


def link_of(
    name: str,
    of: str,
    expected: int | None,
    found: int,
    told: str,
    unknown: str | None,
    *,
    agrees: bool | None = None,
) -> Link:
    """A sum. ``told`` is the message if it does not agree; ``unknown`` is the reason why it then
    can't be checked. Sums agree if they are equal, unless ``agrees`` is given.
    """
    if expected is not None and (expected == found if agrees is None else agrees):
        return Link(name, of, expected, found, Outcome.WHOLE)
    if unknown is not None:
        return Link(name, of, expected, found, Outcome.UNCHECKED, unknown)
    return Link(name, of, expected, found, Outcome.BROKEN, told)


def why_unknown(name: str, upstream: str) -> str:
    """The reason why it is unknown what a table has read of another."""
    return (
        f"the rows of {upstream} that {name} has read are not known any more, because"
        " snapshots have expired or it was rebuilt: `dbt run` first"
    )


def rebuild(models: str) -> str:
    """The command that rebuilds models."""
    return f"dbt run --full-refresh -s {models}"
