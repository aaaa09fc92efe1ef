"""Errors of one sentence."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, TypeVar

from dbt.adapters.spark.impl import SparkAdapter

Result = TypeVar("Result")
Method = Callable[Concatenate[Any, ...], Result]


def told(method: Method[Result]) -> Method[Result]:
    """Makes dbt's errors, of one sentence, of Spark's and ours."""

    @wraps(method)
    def asked(adapter: SparkAdapter, *arguments: Any, **options: Any) -> Result:
        with adapter.connections.exception_handler(f"adapter.{method.__name__}"):
            return method(adapter, *arguments, **options)

    return asked
