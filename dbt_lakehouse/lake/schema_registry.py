"""The schema registry's REST API: the schema of an id in a message.

Environment variables give its address and credentials, which are never written anywhere:

    SCHEMA_REGISTRY_URL         https://registry:8081; several by commas, for one registry
    SCHEMA_REGISTRY_USER        for basic authentication; or both in the address
    SCHEMA_REGISTRY_PASSWORD
    SCHEMA_REGISTRY_CA_FILE     certificates (PEM) to trust besides the machine's

It is only read. An id never gets another schema, so a found schema is kept on disk and requested
once; an id that the registry doesn't know is requested again.

Source: "Schema Registry API Reference" of Confluent's documentation.
"""

import hashlib
import json
import os
import ssl
from base64 import b64encode
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from pathlib import Path
from threading import get_native_id
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request

from dbt_lakehouse.config.paths import cache_folder
from dbt_lakehouse.errors import ConfigurationError, LakehouseError
from dbt_lakehouse.http import opener, parsed
from dbt_lakehouse.redaction import know_secrets
from python_udfs.debezium.avro import AVRO, Registered, ids_of, is_known, know
from python_udfs.registry import AVRO_FORMATS

_URL: Final = "SCHEMA_REGISTRY_URL"
_SECONDS: Final = 10
# A larger id comes from damaged bytes: registries answer it with an error rather than "not
# found".
_LARGEST_ID: Final = 2**31 - 1
_MOST_BYTES: Final = 16 * 1024 * 1024
# No such subject, version or schema. Servers other than registries answer differently.
_NOTHING: Final = (40401, 40402, 40403)
_MOST_REFERENCES: Final = 1000


class RegistryError(LakehouseError):
    """The schema registry can't be used now. The message names it, and the reason."""

    exit_code = 1


def know_schemas_of(
    format_name: str | None, texts: Iterable[bytes | None], *, required: bool = False
) -> None:
    """Find the schemas that keys and values name, for the decoder in this process. A format of
    None is yet to be guessed.

    Without a registry, nothing is found, unless schemas are ``required``: then it raises
    ``ConfigurationError``. A registry that can't be used raises ``RegistryError``.
    """
    if format_name in (None, *AVRO_FORMATS) and (required or os.environ.get(_URL)):
        missing = [number for number in sorted(ids_of(texts)) if not is_known(number)]
        if missing:
            know(find_schemas(missing))


def find_schemas(numbers: Iterable[int]) -> dict[int, Registered | None]:
    """The schemas of these ids; None for an id that the registry doesn't know.

    Raises ``RegistryError`` and ``ConfigurationError``.
    """
    numbers = list(numbers)
    registry = configured()
    if registry is None:
        raise ConfigurationError(
            f"messages name schemas of a schema registry ({_some(numbers)}), which are not known"
            f" here: {_URL} is to say where it is, as https://registry:8081. Nothing is lost, the"
            " next run decodes them"
        )
    return {number: registry.find(number) for number in numbers}


def _some(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")


def configured() -> "Registry | None":
    """The registry that the environment names, if any.

    Raises ``ConfigurationError``.
    """
    given = os.environ.get(_URL, "").strip()
    return Registry(given, os.environ) if given else None


class Registry:
    """A schema registry, at one or several addresses.

    Raises ``ConfigurationError`` for impossible settings, and ``RegistryError`` for failed
    requests.
    """

    def __init__(self, addresses: str, settings: Mapping[str, str]) -> None:
        user = settings.get("SCHEMA_REGISTRY_USER", "")
        password = settings.get("SCHEMA_REGISTRY_PASSWORD", "")
        self._addresses = []
        for each in filter(None, map(str.strip, addresses.split(","))):
            address = parsed(each)
            if address is None:
                raise ConfigurationError(
                    f"{_URL} has an address that no registry has: write one like"
                    " https://registry:8081; SCHEMA_REGISTRY_USER and SCHEMA_REGISTRY_PASSWORD take"
                    " a login as it is, in an address it is percent-encoded"
                )
            if address.user is not None:
                user, password = address.user, address.password
            self._addresses.append(address.url)
        know_secrets({"password": password})
        self.name = ", ".join(self._addresses)
        """Its addresses, without secrets."""
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if user:
            both = b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {both}"
        self._open = opener(_trusted(settings)).open

    def find(self, number: int) -> Registered | None:
        """The schema of an id, from disk if it was found before; None if there is none."""
        if number > _LARGEST_ID:
            return None
        file = self._folder() / f"{number}.json"
        if file.exists():
            try:
                kept = json.loads(file.read_text())
                return Registered(kept["kind"], tuple(kept["texts"]))
            except (OSError, ValueError, KeyError, TypeError):
                # A damaged file is written again.
                pass
        found = self._ask(f"schemas/ids/{number}")
        if found is None:
            return None
        texts: dict[str, None] = {}
        try:
            self._add(found, texts, set())
        except (KeyError, TypeError, ValueError) as error:
            raise RegistryError(
                f"{self.name} has references of schema {number} that can't be read: {error!r}"
            ) from None
        registered = Registered(found.get("schemaType") or AVRO, tuple(texts))
        # Of this thread: others of this process may write it too.
        partial = file.with_suffix(f".{get_native_id()}")
        partial.write_text(json.dumps({"kind": registered.kind, "texts": registered.texts}))
        partial.replace(file)
        return registered

    def probe(self) -> None:
        """Send a request to test the connection."""
        self._ask("schemas/ids/0")

    def _folder(self) -> Path:
        digest = hashlib.sha256(self.name.encode()).hexdigest()[:16]
        folder = cache_folder("avro_schemas") / digest
        folder.mkdir(exist_ok=True)
        return folder

    def _add(self, found: Any, texts: dict[str, None], asked: set[tuple[str, int]]) -> None:
        """Append a schema after all those that it refers to."""
        for reference in found.get("references") or ():
            place = (str(reference["subject"]), int(reference["version"]))
            if place in asked:
                continue
            asked.add(place)
            if len(asked) > _MOST_REFERENCES:
                raise RegistryError(f"{self.name} has a schema of too many references")
            path = f"subjects/{quote(place[0], safe='')}/versions/{place[1]}?deleted=true"
            referred = self._ask(path)
            if referred is None:
                raise RegistryError(
                    f"{self.name} has no version {place[1]} of {place[0]}, to which a schema refers"
                )
            self._add(referred, texts, asked)
        texts[found["schema"]] = None

    def _ask(self, path: str) -> Any:
        """The answer of the first address that responds; None if there is no such schema."""
        trouble: RegistryError | None = None
        for address in self._addresses:
            try:
                return self._get(f"{address}/{path}", address)
            except RegistryError as error:
                trouble = error
        assert trouble is not None
        raise trouble

    def _get(self, url: str, address: str) -> Any:
        where = f"the schema registry {address}"
        try:
            with self._open(Request(url, headers=self._headers), timeout=_SECONDS) as response:
                content = response.read(_MOST_BYTES)
        except HTTPError as error:
            with error:
                code, reason = _said(error)
            if code in _NOTHING:
                return None
            if error.code in (401, 403):
                raise RegistryError(
                    f"{where} refuses ({error.code}): set SCHEMA_REGISTRY_USER and"
                    " SCHEMA_REGISTRY_PASSWORD"
                ) from None
            raise RegistryError(f"{where} answers {error.code}: {reason}; {_AGAIN}") from None
        except (URLError, OSError, HTTPException) as error:
            reason = str(getattr(error, "reason", error))
            raise RegistryError(f"{where} can't be reached: {reason}; {_AGAIN}") from None
        try:
            found = json.loads(content)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise RegistryError(
                f"{where} does not answer like one: {_URL} may lack a path, such as"
                " /apis/ccompat/v7"
            )
        return found


_AGAIN: Final = f"{_URL} says where it is. Nothing is lost, the next run decodes what it names"


def _trusted(settings: Mapping[str, str]) -> ssl.SSLContext:
    file = settings.get("SCHEMA_REGISTRY_CA_FILE") or None
    context = ssl.create_default_context()
    try:
        if file is not None:
            context.load_verify_locations(file)
    except OSError as error:
        raise ConfigurationError(
            f"SCHEMA_REGISTRY_CA_FILE {file} has no certificates that can be read: {error}"
        ) from None
    return context


def _said(error: HTTPError) -> tuple[int | None, str]:
    """The registry's own error code and message."""
    try:
        said = json.loads(error.read(_MOST_BYTES))
        return int(said["error_code"]), " ".join(str(said.get("message", "")).split())[:500]
    except (ValueError, KeyError, TypeError, OSError):
        return None, str(error.reason)
