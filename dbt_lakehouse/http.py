"""HTTP without Spark, for a REST catalog's server and a schema registry's."""

import ssl
from typing import IO, Any, Final, NamedTuple
from urllib.error import URLError
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

_PORTS: Final = {"http": 80, "https": 443}
_SCHEMES: Final = (*_PORTS,)


class Address(NamedTuple):
    """The address of a server, without the user and password that it contained."""

    url: str
    user: str | None
    password: str


def parsed(text: str) -> Address | None:
    """An address from ``https://user:password@host:8081/path``; None for an invalid one, for
    example with a password that contains an address's separators.
    """
    parts = _split(text)
    if parts is None or not text.isascii() or not text.isprintable() or " " in text:
        return None
    login, at, place = parts.netloc.rpartition("@")
    if parts.scheme not in _SCHEMES or not parts.hostname or "@" in login + parts.path:
        return None
    if parts.query or parts.fragment or text.endswith(("?", "#")):
        return None
    user, _, password = login.partition(":")
    return Address(
        f"{parts.scheme}://{place}{parts.path.rstrip('/')}",
        unquote(user) if at else None,
        unquote(password),
    )


def _split(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        # Reading the port checks it.
        parts.port  # noqa: B018
    except ValueError:
        return None
    return parts


def opener(context: ssl.SSLContext | None = None) -> OpenerDirector:
    """An opener that follows redirects only within the same server: neither a login nor other
    headers go to another server, or unencrypted after encryption.
    """
    return build_opener(_SameServer(), HTTPSHandler(context=context))


class _SameServer(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        before, after = urlsplit(req.full_url), _split(newurl)
        if after is None or not _is_same(before, after):
            fp.close()
            place = "elsewhere" if after is None else f"to {after.scheme}://{after.hostname}"
            raise URLError(
                f"it sends on {place} ({code}), where neither the login nor other headers are sent:"
                " name the address that answers itself"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _is_same(before: SplitResult, after: SplitResult) -> bool:
    if before.hostname != after.hostname:
        return False
    is_safer = (before.scheme, after.scheme) == _SCHEMES
    return is_safer or (before.scheme, _port(before)) == (after.scheme, _port(after))


def _port(parts: SplitResult) -> int | None:
    return parts.port or _PORTS.get(parts.scheme)
