"""Lakes whose files are in a bucket of AWS or of another server with the S3 API.

Spark accesses it through Iceberg's own file IO and DuckDB through its extension ``httpfs``. Both
take the properties that the profile has for Iceberg. What these leave out is found as AWS's SDK
finds it: in the environment, in ``~/.aws``, or from the machine's role.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from dbt_lakehouse.lake.catalog import FILE_IO, S3, WAREHOUSE, properties

# Hadoop's schemes too: Iceberg in Spark treats them alike.
_SCHEMES: Final = (S3, "s3a://", "s3n://")
# Errors in the words of AWS's SDK and DuckDB, and our messages for them; the pattern's groups
# fill a message in. The first match counts.
TROUBLES: Final = (
    (
        r"NoSuchBucket|specified bucket does not exist",
        "there is no such bucket: make it, or correct spark.sql.catalog.lake.warehouse",
    ),
    (
        r"InvalidAccessKeyId|Access Key Id you provided|SignatureDoesNotMatch"
        r"|signature we calculated|ExpiredToken|Unable to load credentials",
        "the S3 server doesn't know these credentials: look at AWS_ACCESS_KEY_ID and"
        " AWS_SECRET_ACCESS_KEY in the environment, or wherever else they are (docs/catalogs.md)",
    ),
    (
        r"Unable to load region|No region is provided",
        "the region of the bucket isn't known: set AWS_REGION, or"
        " spark.sql.catalog.lake.client.region",
    ),
    (
        r"Service: S3, Status Code: 403|\(HTTP 403",
        "the S3 server refuses: these credentials may not read or write"
        " spark.sql.catalog.lake.warehouse",
    ),
    (
        r"(?:Unable to execute HTTP request: "
        r"|Could not (?:connect to server|resolve hostname) error for HTTP \w+ to )"
        r"(?P<server>[^\n]+?)(?: \(SDK|\n|$)",
        "the S3 server can't be reached: {server}: look at spark.sql.catalog.lake.s3.endpoint, and"
        " at the network",
    ),
)
# DuckDB's names for the profile's own credentials.
_CREDENTIALS: Final = {
    "key_id": "s3.access-key-id",
    "secret": "s3.secret-access-key",
    "session_token": "s3.session-token",
}


def is_in_bucket(address: str) -> bool:
    """Whether an address of the lake's storage is in a bucket."""
    return address.startswith(_SCHEMES)


def is_read_without_spark(address: str) -> bool:
    """Whether an address of the lake's storage is on this machine or in a bucket."""
    return address.startswith(("/", "file:")) or is_in_bucket(address)


def need_s3(settings: Mapping[str, str]) -> bool:
    """Whether files of the lake are in a bucket by the settings. Only a REST catalog's server
    knows where it has its files; the profile then tells by ``io-impl``.
    """
    in_bucket = settings.get(WAREHOUSE, "").startswith(S3)
    return in_bucket or settings.get(FILE_IO, "").endswith(".S3FileIO")


def duckdb_secret(settings: Mapping[str, str]) -> dict[str, str]:
    """The options of DuckDB's secret for S3, by name."""
    given = properties(settings)
    found = {
        name: given[property_] for name, property_ in _CREDENTIALS.items() if property_ in given
    }
    # No request before a file is read, whose error then names it.
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


def trouble_text(message: str) -> str | None:
    """Our message for an error with buckets; None for any other error."""
    for pattern, sentence in TROUBLES:
        if found := re.search(pattern, message):
            return sentence.format(**found.groupdict())
    return None
