"""Read a REST catalog without Spark, by the few requests of Iceberg's REST catalog specification
that reading tables takes.

PyIceberg has them too, but takes a second to import.
"""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request

from dbt_lakehouse.errors import ConfigurationError, ReadError
from dbt_lakehouse.http import opener

_SECONDS: Final = 30
# Concurrent requests: each waits for a few milliseconds.
_AT_ONCE: Final = 8
# Separates the parts of a schema's name.
_SEPARATOR: Final = "\x1f"
_HEADER: Final = "header."


class Server:
    """The server of a REST catalog, from the properties that Iceberg's own client takes.

    It authenticates with ``token``, or with ``credential`` for OAuth 2. Raises
    ``ConfigurationError`` for any other way, and ``ReadError`` for failed requests.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._uri = properties.get("uri", "").rstrip("/")
        self._open: Final = opener().open
        self._headers: Final = {
            name.removeprefix(_HEADER): value
            for name, value in properties.items()
            if name.startswith(_HEADER)
        }
        way = properties.get("rest.auth.type", "oauth2")
        if way not in ("none", "oauth2"):
            raise ConfigurationError(
                f"without Spark, a REST catalog is asked with a token, a credential or nothing, and"
                f" not with rest.auth.type {way}"
            )
        if token := properties.get("token") or self._token(properties):
            self._headers["Authorization"] = f"Bearer {token}"
        warehouse = properties.get("warehouse", "")
        given = self._get(f"{self._uri}/v1/config?{urlencode({'warehouse': warehouse})}")
        said = {**given.get("defaults", {}), **properties, **given.get("overrides", {})}
        self._uri = said["uri"].rstrip("/")
        self._prefix: Final = "/".join(filter(None, ("v1", said.get("prefix"))))
        # A server with views lists their endpoint.
        self._has_views: Final = any(each.endswith("/views") for each in given.get("endpoints", ()))

    def schemas(self) -> list[str]:
        """The names of all schemas."""
        return sorted(".".join(each) for each in self._ask("namespaces")["namespaces"])

    def schema_properties(self, schema: str) -> dict[str, str]:
        """The properties of a schema, empty if it does not exist."""
        if schema not in self.schemas():
            return {}
        found: dict[str, str] = self._ask(_of_schema(schema)).get("properties") or {}
        return found

    def metadata(self, schema: str, kind: str) -> Iterator[tuple[str, str]]:
        """The names of the tables (``TABLE``) or views (``VIEW``) of a schema, each with the
        address of its metadata.
        """
        if kind == "VIEW" and not self._has_views:
            return
        several = f"{_of_schema(schema)}/{kind.lower()}s"
        names = sorted(each["name"] for each in self._ask(several)["identifiers"])

        def address(name: str) -> str:
            # Few of its snapshots are needed here.
            found = self._ask(f"{several}/{quote(name, safe='')}?snapshots=refs")
            return str(found["metadata-location"])

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            yield from zip(names, pool.map(address, names), strict=True)

    def _token(self, properties: Mapping[str, str]) -> str | None:
        """The token that the server gives for the credential."""
        credential = properties.get("credential")
        if credential is None:
            return None
        name, _, secret = credential.rpartition(":")
        form = {
            "grant_type": "client_credentials",
            "scope": properties.get("scope", "catalog"),
            "client_secret": secret,
            **({"client_id": name} if name else {}),
        }
        address = properties.get("oauth2-server-uri") or f"{self._uri}/v1/oauth/tokens"
        token: str = self._get(address, urlencode(form).encode())["access_token"]
        return token

    def _ask(self, path: str) -> Any:
        return self._get(f"{self._uri}/{self._prefix}/{path}")

    def _get(self, address: str, form: bytes | None = None) -> Any:
        try:
            with self._open(Request(address, form, self._headers), timeout=_SECONDS) as response:
                content = response.read()
        except HTTPError as error:
            reason = _message(error.read()) or error.reason
            raise ReadError(
                f"the lake's catalog {self._uri} refuses: {reason} ({error.code})"
            ) from error
        except (URLError, OSError, HTTPException) as error:
            reason = str(getattr(error, "reason", error))
            raise ReadError(f"the lake's catalog {self._uri} can't be read: {reason}") from error
        except ValueError as error:
            # Python's own message repeats the header.
            raise ConfigurationError(
                f"the lake's catalog {self._uri} can't be asked: HTTP doesn't send the profile's"
                " token, credential or headers as they are, or the redirect's target is not an"
                " address"
            ) from error
        try:
            return json.loads(content)
        except ValueError as error:
            raise ReadError(
                f"{self._uri} is not a REST catalog: its answer to {address.partition('?')[0]} is"
                " not a catalog's"
            ) from error


def _of_schema(schema: str) -> str:
    return f"namespaces/{quote(_SEPARATOR.join(schema.split('.')), safe='')}"


def _message(body: bytes) -> str | None:
    """The message in an error body of the specification; None for any other body."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, LookupError, TypeError):
        return None
    return str(message)
