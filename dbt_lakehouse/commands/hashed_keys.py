"""Keys that a change log has hashes of (``typed.masks``): those who ask of one give its clear
values, and find its rows by their hashes.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.masking import MASK_KEY, mask_key
from dbt_lakehouse.runs.model_run import DECLARED
from python_udfs.typed.masks import HASH, fingerprint, know_key, masked
from python_udfs.typed.values import Value


def clear_types(log: Mapping[str, Any], key: Sequence[str]) -> dict[str, str]:
    """The types of the hashed ones of key columns before that, by what a log declares."""
    return {
        spec["column"]: spec["clear"]
        for spec in log["columns"]
        if spec["column"] in key and spec.get("mask") == HASH
    }


def hash_as(label: str, log: Table) -> None:
    """Let this process hash as the values of a change log (``label``: its name) were.

    Raises ``ConfigurationError`` if that key of masks is not there.
    """
    declaration = log.properties.get(f"{DECLARED}.{log.noted(DECLARED)}")
    if json.loads(declaration or "{}").get("mask_key") != fingerprint(mask_key()):
        # Nothing would be found, since the log has other hashes.
        raise ConfigurationError(
            f"{label} was built by another {MASK_KEY}, or before its key was masked: set that one,"
            " or `dbt run` first"
        )
    know_key(mask_key())


def hashed(value: Value | None) -> Value | None:
    """A clear value as such a log has it, after ``hash_as``."""
    return masked(value, HASH)
