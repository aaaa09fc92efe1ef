"""The modules of the distribution's extras (pyproject.toml), and the message about a
missing one.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from dbt_lakehouse.errors import ConfigurationError

_ARROW: Final = ("pyarrow",)
_PROJECT: Final = ("jinja2", "yaml")
_SQL: Final = (
    *("duckdb", "duckdb_extension_avro", "duckdb_extension_iceberg", "numpy", "prompt_toolkit"),
    *(*_ARROW, *_PROJECT),
)

# `dbt` alone is not enough to find: our own adapter is a package in it.
MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "arrow": _ARROW,
    "avro": ("pyruhvro", *_ARROW),
    "lake": ("pyspark", "dbt_common", "py4j", "ruamel", *_ARROW, *_PROJECT),
    "sql": _SQL,
    "s3": ("duckdb_extension_aws", "duckdb_extension_httpfs", *_SQL),
    "report": ("pygal", *_SQL),
    "page": ("flask", "werkzeug", "pygal", *_SQL),
    "postgres": ("psycopg",),
    "openmetrics": ("prometheus_client",),
}
"""The modules of each extra, with its distinguishing ones first."""


def require(*extras: str) -> None:
    """Raise ``ConfigurationError`` if a module of the extras is missing."""
    if told := missing(*extras):
        raise ConfigurationError(told)


def missing(*extras: str) -> str | None:
    """A sentence with the first missing module of each extra, and how to install it; None if all
    are there.
    """
    absent = {each: name for each in extras if (name := _first_missing(MODULES[each])) is not None}
    if not absent:
        return None
    names = " and ".join(dict.fromkeys(absent.values()))
    is_or_are = "is" if len({*absent.values()}) == 1 else "are"
    wanted = f"pip install 'cdc_lakehouse[{','.join(absent)}]'"
    return f"{names} {is_or_are} not installed, which this needs: {wanted}"


def _first_missing(modules: tuple[str, ...]) -> str | None:
    return next((name for name in modules if find_spec(name) is None), None)
