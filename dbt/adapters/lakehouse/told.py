"""Translation of errors to one sentence."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, TypeVar

from dbt.adapters.spark.impl import SparkAdapter

Result = TypeVar("Result")
Method = Callable[Concatenate[Any, ...], Result]


def told(method: Method[Result]) -> Method[Result]:
    """Translate errors of Spark, and ours, into dbt's with one sentence."""

    @wraps(method)
    def asked(adapter: SparkAdapter, *arguments: Any, **options: Any) -> Result:
        with adapter.connections.exception_handler(f"adapter.{method.__name__}"):
            return method(adapter, *arguments, **options)

    return asked
