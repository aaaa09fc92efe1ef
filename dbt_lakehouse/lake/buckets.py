"""Lakes whose files lie in a bucket, AWS's or another server's that speaks S3's API.

Spark reads and writes it by Iceberg's own file access and DuckDB by its extension ``httpfs``. Both
take the properties that the profile has for Iceberg, and find what it leaves out as AWS's SDK does:
in the environment, in ``~/.aws``, of the machine's role.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from dbt_lakehouse.lake.catalog import FILE_IO, WAREHOUSE, properties

_SCHEMES: Final = ("s3://", "s3a://", "s3n://")
# DuckDB's names of the profile's own credentials.
_CREDENTIALS: Final = {
    "key_id": "s3.access-key-id",
    "secret": "s3.secret-access-key",
    "session_token": "s3.session-token",
}


def is_in_bucket(address: str) -> bool:
    """Whether a file or folder of the lake's storage is in a bucket."""
    return address.startswith(_SCHEMES)


def need_s3(settings: Mapping[str, str]) -> bool:
    """Whether the settings say that files of the lake are in a bucket. Where a REST catalog has its
    files, its server knows; the profile says so by ``io-impl``.
    """
    return is_in_bucket(settings.get(WAREHOUSE, "")) or settings.get(FILE_IO, "").endswith(
        ".S3FileIO"
    )


def duckdb_secret(settings: Mapping[str, str]) -> dict[str, str]:
    """What DuckDB's secret for S3 has, by the names of its options."""
    given = properties(settings)
    found = {
        name: given[property_] for name, property_ in _CREDENTIALS.items() if property_ in given
    }
    # Nothing is asked for before a file is read, and then the error names it.
    secret = found or {"provider": "credential_chain", "validation": "none"}
    if endpoint := given.get("s3.endpoint"):
        address = urlsplit(endpoint)
        secret["endpoint"] = f"{address.netloc}{address.path.rstrip('/')}"
        secret["use_ssl"] = str(address.scheme != "http").lower()
    if given.get("s3.path-style-access") == "true":
        secret["url_style"] = "path"
    if region := given.get("client.region"):
        secret["region"] = region
    return secret
