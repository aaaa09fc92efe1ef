"""Remove secrets from texts for others: passwords, tokens, keys.

Drivers repeat the addresses of databases, catalogs their settings, Kafka's client its login, and
servers what they were sent. Each error of ours goes through ``without_secrets``, and so do dbt's
logs and tracebacks. The end of a secret can't always be recognized: too much is hidden rather
than too little.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

HIDDEN: Final = "***"
# The words in names of secrets: of settings, headers, parts of an address.
_WORD: Final = r"""(?ix:
    passw(?:or)?d | passphrase | passcode | (?-i:(?<=[a-z])Pass(?![a-z])) | pwd
    | (?:(?<![^\W_])|(?<=-D)|(?<=%[\da-f]{2}))(?:pw|(?-i:[Pp]ass|PASS(?!=\d+\ WARN=)))(?![^\W_])
    | secret | (?:token|credential)(?!s?[._-]provider) | jaas | authori[sz]ation | cookie
    | signature | assertion
    | user[._-]?info | session[._-]?id | (?:(?<![^\W_])|(?<=%[\da-f]{2}))sas(?![^\W_])
    | (?:access|account|api|auth|encryption|hmac|keystore|master|private|shared|signing|storage
        |subscription)[._-]?key
)"""
# An exception named for a secret, TopicAuthorizationException, has a message behind its colon.
_NAME: Final = rf"{_WORD}(?!\w*(?i:exception|error)\b)[\w.-]*"
# Every such name has one of these parts; searching for them is faster than for names.
_PARTS_OF_NAMES: Final = (
    *("pass", "pwd", "pw", "secret", "token", "credential", "jaas", "authori", "cookie"),
    *("signature", "assertion", "user", "session", "sas", "auth", "code=", "key=", "sig="),
    *("access", "account", "api", "encryption", "hmac", "keystore", "master", "private"),
    *("shared", "signing", "storage", "subscription"),
)
# The quote is doubled or escaped in the value, or the whole text is escaped; byte literals of
# Python and SQL have a letter before it.
_QUOTED: Final = r"""(?xs:
    (?:(?<![^\W_])[bBuUrR]{1,2}(?=\\*["']))?
    (?:(?P<mark>["'`])(?:\\.|(?P=mark){2}|(?!(?P=mark)).)*(?P=mark)
    | (?P<escaped>\\+["'])(?:(?!(?<!\\)(?P=escaped)).)*(?<!\\)(?P=escaped))
)"""
_END_OF_BARE: Final = r"""(?x:
    \Z | \s | ["'`](?!\w) | [&;,](?=[\w.%-]+=) | [,;:.!?)\]}]+(?=\s|\Z|["'`](?!\w))
)"""
_IN_BRACKETS: Final = r"(?:\[[^\]\n]*\]|\{(?:[^}\n]|\}\})*\})"
# For headers that are not called authorization; for those that are, any word is a scheme.
_SCHEME: Final = r"(?i:Basic|Bearer|Digest|Negotiate|Token|ApiKey|JWT|OAuth|SharedKey)"
_VALUE: Final = rf"""(?x:
    {_QUOTED}
    | {_IN_BRACKETS}
    | (?:{_SCHEME}\s+)?
      (?![&;,](?:\s|\Z|[\w.%-]+=))[^\s]+?(?={_END_OF_BARE})
)"""
# Between a name and its value: =, ->, two spaces in a table, a percent-encoded = or :.
_IS: Final = r"""(?x:
    (?:\\*["'`\]])*(?:[ \t]*(?:[=-]>|:?=+|:|%3[ADad])[ \t]*|[ ]{2,}|\t)
)"""
# The rest of a line, or of the quotes or brackets around it. The parameters of a scheme are
# quoted themselves: OAuth oauth_token="...".
_LINE: Final = r"""(?x:
    [^\s](?:
        [\w-]+=\\*"[^"\n]*"
        | (?!\\*["'`](?!\w)|[)\]}]+(?:[,;.:!?]*(?:\s|\Z)|["'`]))[^\n]
    )*
)"""
# A password may contain spaces, and the text after a host's port is not one.
_NO_PORT: Final = r"""(?!\d{1,5}(?:[/?\#,;\s)\]}>.:!"']|\Z))"""
_OF_ADDRESS: Final = r"""(?:[^\s"']|["'](?=\w))"""
_OF_ADDRESS_WITH_SPACES: Final = rf"""(?x:
    {_NO_PORT}(?=\S)
    (?:{_OF_ADDRESS}
        | [ ](?!["'(]*(?:https?|jdbc|s3[an]?|postgres(?:ql)?|mysql|mongodb|file):)
    ){{0,1000}}
)"""
_NO_SECRETS: Final = "authentication|auth|credentials?|realm|scheme|tokens?|and|or|is|with|without"
# The rules in order: the lower-case parts of which a text must have one, the pattern, and its
# replacement.
_RULES: Final = (
    (
        ("-----begin",),
        r"(?s)(-----BEGIN\ [^-]*PRIVATE\ KEY-----).*?(?:-----END\ [^-]*-----|\Z)",
        rf"\1{HIDDEN}",
    ),
    # YAML's values on lines of their own, folded (>-) and literal (|) ones too: all lines with
    # the first one's indentation, before the rule for the rest of a line. A mapping does not
    # count, such as "credentials:" with "provider: x" in it: its names have no digits, unlike
    # secrets.
    (
        ("\n ", "\n\t"),
        # Few lines end like this; Python statements among them don't count.
        r"((?m:^)(?=[^\n]*[:>|][-+\d]*[ \t]*(?:\#[^\n]*)?\r?\n\s)"
        r"(?![ \t]*(?:if|elif|while|for|with|class|def|except|match|case)\b)"
        rf"[^\n]*?{_NAME}[\"']?:[ \t]*)"
        r"(?:[>|][-+\d]*[ \t]*(?:\#[^\n]*)?\r?\n(?:[ \t]*\r?\n)*"
        r"|\r?\n(?![ \t]+(?:-[ ]+)?[\"']?(?:[^\W\d]|[.-])+[\"']?:(?:\s|\Z)))"
        r"(?P<indent>[ \t]+)[^\n]+(?:\n[ \t]*(?=\n)|\n(?P=indent)[^\n]*)*",
        rf"\1{HIDDEN}",
    ),
    # Several words: up to the semicolon that ends them, or the whole line.
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
        rf"""([(\[][bBuU]?["']?[\w.:-]*?{_NAME}["']?,)
        (?:[ ]?{_QUOTED}|(?!\s)[^\n]*?(?=[)\]]+(?:[,;.:!?]?(?:\s|\Z)|[,;][(\[]|["'}}])|\n|\Z))""",
        rf"\1{HIDDEN}",
    ),
    # YAML's in a text with escaped line ends.
    (
        ("\\n ", "\\n\t"),
        rf"({_NAME}\\*[\"']?:[ \t]*)"
        r"(?:[>|][-+\d]*[ \t]*)?"
        r"(?:(?:(?:\\+r)?\\+n)+[ \t]+(?:\\+\"|(?!\\+[rn])[^\n\"])+)+",
        rf"\1{HIDDEN}",
    ),
    # The scheme is any word that the server asks for, or several.
    (
        ("authori",),
        rf"((?i:authori[sz]ation)(?!\w*(?i:exception|error)\b)[\w.-]*{_IS})"
        rf"(?:{_QUOTED}|{_IN_BRACKETS}|{_LINE})",
        rf"\1{HIDDEN}",
    ),
    # x.password=..., -> ...: in any notation of names and values.
    (
        _PARTS_OF_NAMES,
        rf"({_NAME}{_IS}|(?<=[?&])(?:auth|code|key|sig)=){_VALUE}",
        rf"\1{HIDDEN}",
    ),
    (
        ("--",),
        rf"(--[\w.-]*?{_NAME}(?:[ ]|[\"'],[ ]?(?=[\"'])))(?!-){_VALUE}",
        rf"\1{HIDDEN}",
    ),
    # A login of curl's. Docker's user and group are numbers.
    (
        ("-u",),
        r"((?<![\w-])(?:-u|--(?:proxy-)?user)(?:[ =]+|[\"'],[ ]*))"
        rf"(?!\d+:\d+(?:\s|\Z)|(?:jdbc|https?):)(?=[\"']?[^\s\"':]+:[^\s\"']){_VALUE}",
        rf"\1{HIDDEN}",
    ),
    # OPTIONS (password 'x', 'token' 'y'), with password 'x'. Not "expected token 'x'".
    (
        ("pass", "pwd"),
        rf"((?i:passw(?:or)?d|passphrase|pwd)[\w.-]*[\"'`]?[ \t]+)(?!\"\"\"|'''){_QUOTED}",
        rf"\1{HIDDEN}",
    ),
    (
        _PARTS_OF_NAMES,
        rf"((?:(?m:^)|[(,])[ \t]*[\"'`]?[\w.-]*?{_NAME}[\"'`]?[ \t]+){_QUOTED}"
        r"(?=\s*(?:[,;)]|\Z)|[ ]*\n)",
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
    # JSON web tokens, and AWS's key ids.
    (
        ("eyj", "akia", "asia"),
        r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
        HIDDEN,
    ),
    (
        ("jdbc:oracle:",),
        # A quoted user may contain an address's separators, and no quote.
        r"((?i:jdbc:oracle):\w+:(?:\\*\"[^\"\n]*\"|[^\s/@\"']*))/"
        rf"(?:\\*\"[^\"\n]*\"|{_OF_ADDRESS}{{0,1000}})@",
        rf"\1/{HIDDEN}@",
    ),
    # Up to the last @: a password may contain one, and all other separators of an address.
    (
        ("//",),
        rf"(//(?!\[)[^\s/?\#@:\"'<>]{{0,200}}:)(?:{_OF_ADDRESS_WITH_SPACES}|{_OF_ADDRESS}{{0,1000}})@",
        rf"\1{HIDDEN}@",
    ),
    (
        ("//",),
        rf"(//)[^\s/?\#@:\"'<>]{{1,1000}}@(?:{_OF_ADDRESS}{{0,1000}}@)?",
        rf"\1{HIDDEN}@",
    ),
    # Percent-encoded as a whole, as a part of another address.
    (
        ("%40",),
        r"(?i)((?:[a-z][a-z\d+.-]*%3A%2F%2F)?[^\s%\"'<>]{0,200}%3A)[^\s\"'<>]{1,1000}%40",
        rf"\1{HIDDEN}%40",
    ),
)
# Shorter ones, and mere words, may be in any sentence.
_LONG_ENOUGH: Final = 6
_known: Final[set[str]] = set()


_PARTS: Final = frozenset(part for parts, _, _ in _RULES for part in parts)


class _Rule(NamedTuple):
    parts: frozenset[str]
    pattern: re.Pattern[str]
    left: str


@cache
def _rules() -> list[_Rule]:
    # Compiled on demand: most commands have nothing to hide, and it takes a while.
    return [
        _Rule(frozenset(parts), re.compile(text, re.VERBOSE), left) for parts, text, left in _RULES
    ]


def without_secrets(text: str) -> str:
    """A text with ``***`` in place of passwords, tokens and keys."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    lowered = text.lower()
    # Once for all rules: each line of dbt's log comes here, and few have any part.
    found = {part for part in _PARTS if part in lowered}
    if found:
        for parts, pattern, left in _rules():
            if not found.isdisjoint(parts):
                text = pattern.sub(left, text)
    return text


@cache
def is_secret(name: str) -> bool:
    """Whether the value of a setting or environment variable of this name is a secret."""
    return re.search(_WORD, name) is not None


def know_secrets(settings: Mapping[str, str]) -> None:
    """Hide the secrets among settings wherever they occur, even without a name beside them."""
    for name, value in settings.items():
        if is_secret(name):
            _know(value)
        # A password is part of an address and of Kafka's login.
        for quoted, bare in re.findall(rf'{_NAME}=(?:"([^"]+)"|([^"&;\s]+))', value):
            _know(quoted or bare)


def is_known(value: str) -> bool:
    """Whether a value is one of the secrets given to ``know_secrets``."""
    return value in _known


def _know(secret: str) -> None:
    if len(secret) >= _LONG_ENOUGH and not secret.isalpha() and not secret.isdecimal():
        _known.update({secret, quote(secret, safe=""), unquote(secret), json.dumps(secret)[1:-1]})
