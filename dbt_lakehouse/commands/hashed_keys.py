"""Keys that a change log stores as hashes (``typed.masks``). Users give clear values, and their
rows are found by the hashes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.masking import MASK_KEY, mask_key
from dbt_lakehouse.runs.inventory import LakeTable
from python_udfs.typed.masks import HASH, fingerprint, know_key, masked
from python_udfs.typed.values import Value


def clear_types(log: Mapping[str, Any], key: Sequence[str]) -> dict[str, str]:
    """The types of hashed key columns before hashing, from a log's declaration."""
    return {
        spec["column"]: spec["clear"]
        for spec in log["columns"]
        if spec["column"] in key and spec.get("mask") == HASH
    }


def hash_as(label: str, log: Table) -> None:
    """Hash in this process as the values of a change log (``label``: its name) were hashed.

    Raises ``ConfigurationError`` if the same mask key is not there.
    """
    if LakeTable(label, log).declared.get("mask_key") != fingerprint(mask_key()):
        # Nothing would be found, since the log has other hashes.
        raise ConfigurationError(
            f"{label} was built by another {MASK_KEY}, or before its key was masked: set that one,"
            " or `dbt run` first"
        )
    know_key(mask_key())


def hashed(value: Value | None) -> Value | None:
    """The hash of a clear value, after ``hash_as``."""
    return masked(value, HASH)
