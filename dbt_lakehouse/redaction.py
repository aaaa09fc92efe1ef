"""Texts that others may read, without the secrets that they repeat: passwords, tokens, keys.

Drivers repeat the addresses of databases, catalogs their settings, Kafka's client its login, and
servers what they were sent. Each error of ours goes through ``without_secrets``, and so do the logs
of dbt and tracebacks. Where a secret ends can't always be told: rather too much is hidden.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

HIDDEN: Final = "***"
# What a name has in it whose value is a secret: of a setting, a header, a part of an address.
_WORD: Final = r"""(?ix:
    passw(?:or)?d | passphrase | passcode | (?-i:(?<=[a-z])Pass(?![a-z])) | pwd
    | (?-i:(?<![^\W_])[Pp]ass|(?<=[_.-])PASS)(?![^\W_]) | (?<![^\W_])pw(?![^\W_])
    | secret | (?:token|credential)(?!s?[._-]provider) | jaas | authori[sz]ation | cookie
    | signature | assertion
    | user[._-]?info | session[._-]?id | (?<![^\W_])sas(?![^\W_])
    | (?:access|account|api|auth|encryption|hmac|keystore|master|private|shared|signing|storage
        |subscription)[._-]?key
)"""
_NAME: Final = rf"{_WORD}[\w.-]*"
# Each has one of these parts; to look for them takes less time than to look for names.
_PARTS_OF_NAMES: Final = (
    *("pass", "pwd", "pw", "secret", "token", "credential", "jaas", "authori", "cookie"),
    *("signature", "assertion", "user", "session", "sas", "auth", "code=", "key=", "sig="),
    *("access", "account", "api", "encryption", "hmac", "keystore", "master", "private"),
    *("shared", "signing", "storage", "subscription"),
)
# The mark is doubled or escaped in the value, or all of the text is escaped.
_QUOTED: Final = r"""(?xs:
    (?P<mark>["'`])(?:\\.|(?P=mark){2}|(?!(?P=mark)).)*(?P=mark)
    | (?P<escaped>\\+["'])(?:(?!(?<!\\)(?P=escaped)).)*(?<!\\)(?P=escaped)
)"""
_END_OF_BARE: Final = r"""(?x:
    \Z | \s | ["'`](?!\w) | [&;,](?=[\w.%-]+=) | [,;:.!?)\]}]+(?=\s|\Z|["'`](?!\w))
)"""
_VALUE: Final = rf"""(?x:
    {_QUOTED}
    | \[[^\]\n]*\] | \{{(?:[^}}\n]|\}}\}})*\}}
    | (?:(?:Basic|Bearer|Digest|Negotiate|Token|ApiKey)\s+)?
      (?![&;,](?:\s|\Z|[\w.%-]+=))[^\s]+?(?={_END_OF_BARE})
)"""
_OF_ADDRESS: Final = r"""(?:[^\s"'<>]|["'](?=\w))"""
_NO_SECRETS: Final = "authentication|auth|credentials?|realm|scheme|tokens?|and|or|is|with|without"
# What is looked for, in this order, if a text has one of some parts, in lower case; and what is
# left of it.
_RULES: Final = (
    (
        ("-----begin",),
        r"(?s)(-----BEGIN\ [^-]*PRIVATE\ KEY-----).*?(?:-----END\ [^-]*-----|\Z)",
        rf"\1{HIDDEN}",
    ),
    # Of several words: up to the semicolon that ends them, or all of the line.
    (
        ("jaas",),
        r"((?i:jaas)[\w.-]*[ \t]*[=:][ \t]*)(?!\\*[\"'])"
        r"(?:\"(?:\\.|[^\"\\\n])*\"|[^\n;]|;(?!\s|\Z|[\"'\\]))+;?",
        rf"\1{HIDDEN}",
    ),
    (
        ("digest", "aws4"),
        r"(?i)(\b(?:AWS4-HMAC-SHA256|Digest)[ ](?=\w+=))[^\n]+",
        rf"\1{HIDDEN}",
    ),
    (
        ("cookie",),
        r"(?i)(\b(?:set-)?cookie[ \t]*[=:][ \t]*)(?!\\*[\"']|\[)[^\n]+",
        rf"\1{HIDDEN}",
    ),
    # {"name": "x.password", "value": "..."}, Row(key='x.password', value='...').
    (
        ("value",),
        rf"((?i:\b(?:key|name))[\"']?\s*[=:]\s*[\"']?[\w.-]*?{_NAME}[\"']?\s*,\s*[\"']?"
        rf"(?i:value)[\"']?\s*[=:]\s*){_VALUE}",
        rf"\1{HIDDEN}",
    ),
    # <name>x.password</name><value>...</value>, <password>...</password>.
    (
        ("</",),
        rf"(<name>[^<]*{_NAME}[^<]*</name>\s*<value>)[^<]*|(<[\w.:-]*?{_NAME}>)[^<]*",
        rf"\1\2{HIDDEN}",
    ),
    # (x.password,...), as Spark prints its settings; ('x.password', '...').
    (
        _PARTS_OF_NAMES,
        rf"""([(\[]["']?[\w.:-]*?{_NAME}["']?,)
        (?:[ ]?{_QUOTED}|(?!\s)[^\n]*?(?=[)\]]+(?:[,;.:!?]?(?:\s|\Z)|[,;][(\[]|["'}}])|\n|\Z))""",
        rf"\1{HIDDEN}",
    ),
    # x.password=..., -> ...: in any way to write down names and values.
    (
        _PARTS_OF_NAMES,
        rf"({_NAME}(?:\\*[\"'`\]])*(?:[ \t]*(?:[=-]>|:?=+|:)[ \t]*|[ ]{{2,}}|\t)"
        rf"|(?<=[?&])(?:auth|code|key|sig)=){_VALUE}",
        rf"\1{HIDDEN}",
    ),
    (
        ("--",),
        rf"(--[\w.-]*?{_NAME}[ ])(?!-){_VALUE}",
        rf"\1{HIDDEN}",
    ),
    # A line of spark-defaults.conf.
    (
        _PARTS_OF_NAMES,
        rf"(?m)^([ \t]*[\w-]+\.[\w.-]*?{_NAME}[ ]+)\S+$",
        rf"\1{HIDDEN}",
    ),
    (
        ("bearer", "negotiate"),
        rf"(?i)(\b(?:Bearer|Negotiate)\s+)(?!(?:{_NO_SECRETS})\b)[^\s\"',;]+",
        rf"\1{HIDDEN}",
    ),
    # Not "basic authentication".
    (
        ("basic",),
        r"(\b(?i:Basic)\s+)(?=[\w+/=-]*[\dA-Z+/=])[\w+/-]{4,}=*",
        rf"\1{HIDDEN}",
    ),
    # JSON web tokens, and what names a key of AWS's.
    (
        ("eyj", "akia", "asia"),
        r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
        HIDDEN,
    ),
    (
        ("jdbc:oracle:",),
        rf"((?i:jdbc:oracle):\w+:)([^\s/@\"']*)/{_OF_ADDRESS}{{0,1000}}@",
        rf"\1\2/{HIDDEN}@",
    ),
    # Up to the last @: a password may have one, and all else that divides an address.
    (
        ("//",),
        rf"(//[^\s/?\#@:\"'<>]{{0,200}}:){_OF_ADDRESS}{{0,1000}}@",
        rf"\1{HIDDEN}@",
    ),
    (
        ("//",),
        rf"(//)[^\s/?\#@:\"'<>]{{1,1000}}@(?:{_OF_ADDRESS}{{0,1000}}@)?",
        rf"\1{HIDDEN}@",
    ),
)
# Shorter ones, and mere words, may stand in any sentence.
_LONG_ENOUGH: Final = 6
_known: Final[set[str]] = set()


class _Rule(NamedTuple):
    parts: tuple[str, ...]
    pattern: re.Pattern[str]
    left: str


@cache
def _rules() -> list[_Rule]:
    # Most commands have nothing to hide, and these take a while to compile.
    return [_Rule(parts, re.compile(text, re.VERBOSE), left) for parts, text, left in _RULES]


def without_secrets(text: str) -> str:
    """A text with ``***`` in the place of passwords, tokens and keys."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    lowered = text.lower()
    for parts, pattern, left in _rules():
        if any(part in lowered for part in parts):
            text = pattern.sub(left, text)
    return text


@cache
def is_secret(name: str) -> bool:
    """Whether the value of a setting of this name, or of a variable of the environment, is one."""
    return re.search(_WORD, name) is not None


def know_secrets(settings: Mapping[str, str]) -> None:
    """Have the secrets among settings hidden wherever they stand, also where nothing says that they
    are some.
    """
    for name, value in settings.items():
        if is_secret(name):
            _know(value)
        # Of an address and of Kafka's login, a password is a part.
        for quoted, bare in re.findall(rf'{_NAME}=(?:"([^"]+)"|([^"&;\s]+))', value):
            _know(quoted or bare)


def is_known(value: str) -> bool:
    """Whether it is one of the secrets that ``know_secrets`` was told."""
    return value in _known


def _know(secret: str) -> None:
    if len(secret) >= _LONG_ENOUGH and not secret.isalpha() and not secret.isdecimal():
        _known.update({secret, quote(secret, safe=""), unquote(secret), json.dumps(secret)[1:-1]})
