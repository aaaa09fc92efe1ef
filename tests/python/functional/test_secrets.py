"""What nobody may read who is not meant to: passwords in process lists, logs and errors, and values
of the data in errors.
"""

import json
import logging
import subprocess
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import product
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from dbt_common.events.base_types import EventLevel
from dbt_common.events.event_manager_client import get_event_manager
from dbt_common.events.functions import fire_event
from dbt_common.events.logger import LineFormat, LoggerConfig
from dbt_common.events.types import Note
from hypothesis import given, settings
from hypothesis import strategies as st
from support.lakes import Lake, copy_project

from dbt.adapters.lakehouse.connections.terminal import hide_secrets
from dbt_lakehouse import cli, redaction
from dbt_lakehouse.errors import ConfigurationError, ReadError
from dbt_lakehouse.lake.catalog import absolute
from dbt_lakehouse.lake.rest import Server
from dbt_lakehouse.lake.schema_registry import Registry, RegistryError
from dbt_lakehouse.redaction import is_secret, know_secrets, without_secrets
from dbt_lakehouse.session.troubles import without_values

SECRET = "hunter2"
# What fails on a value, a text ``s`` with the secret in it, and what Spark calls that.
BAD_VALUES = {
    "cast(s as int)": "CAST_INVALID_INPUT",
    "cast(concat(s, '\\n and more') as int)": "CAST_INVALID_INPUT",
    "map_from_arrays(array(s, s), array(1, 2))": "DUPLICATED_MAP_KEY",
    "parse_url(concat('http://', s, ' :'), 'HOST')": "INVALID_URL",
    "to_number(s, '999')": "INVALID_FORMAT.MISMATCH_INPUT",
    "to_json(parse_json(s))": "MALFORMED_RECORD_IN_PARSING",
}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "jdbc:nobody://me:hunter2@db:1/lake?password=hunter2&user=me",
            "jdbc:nobody://me:***@db:1/lake?password=***&user=me",
        ),
        ("spark.sql.catalog.lake.jdbc.password=hunter2, a=1", "…jdbc.password=***, a=1"),
        ("s3.access-key-id: hunter2, s3.secret-access-key='hunter2'", "s3.access-key-id: ***, s3"),
        ("{'lake.credential': 'id:hunter2', \"oauth-token\": hunter2}", "…'lake.credential': ***,"),
        ("fs.s3a.secret.key = hunter2; fs.s3a.access.key=hunter2", "…secret.key = ***; fs.s3a"),
        (
            "[CAST_INVALID_INPUT] The value 'hunter2' of the type \"STRING\" cannot be cast to"
            " \"INT\". SQLSTATE: 22018\n== SQL ==\nselect cast('hunter2' as int)",
            '…The value *** of the type "STRING" cannot be cast to "INT". SQLSTATE: 22018',
        ),
        (
            "[NUMERIC_VALUE_OUT_OF_RANGE] 12345.67 cannot be represented as Decimal(3, 1)."
            " SQLSTATE: 22003",
            "…] *** cannot be represented as Decimal(3, 1). SQLSTATE: 22003",
        ),
        ('For input string: "hunter2"', "For input string: ***"),
        ("Text 'hunter2' could not be parsed at index 0", "Text *** could not be parsed"),
        # No value of the data, and no secret: the user looks for it in his SQL.
        ("[PARSE_SYNTAX_ERROR] near 'foo'. SQLSTATE: 42601", "…near 'foo'. SQLSTATE: 42601"),
        ('password authentication failed for user "me"', 'failed for user "me"'),
    ],
)
def test_errors_show_no_secrets_and_no_values(text: str, shown: str) -> None:
    told = without_values(text)
    assert SECRET not in told and "12345" not in told
    assert shown.lstrip("…") in told


@pytest.fixture(autouse=True)
def _what_is_known() -> Iterator[None]:
    """No test knows the secrets of another, which would hide them."""
    before = {*redaction._known}
    yield
    redaction._known.clear()
    redaction._known.update(before)


# A secret has this before, between and behind its other characters: no part of it may be told.
PART: Final = "qz7"
DIVIDERS: Final = "/@:?#"


def secrets(others: str) -> st.SearchStrategy[str]:
    """Secrets that have any of these characters within."""
    piece = st.text(st.sampled_from(others), max_size=3)
    return st.lists(piece, min_size=1, max_size=4).map(lambda each: PART.join(["", *each, ""]))


BARE: Final = secrets(DIVIDERS + "!$*+~^|%-_.=()aZ0äß€漢")
QUOTED: Final = secrets(DIVIDERS + " ,;&={}[]()<>'\"\\\n\tä€")
# As addresses hold one in front of a host, and everything holds a name with its value.
ADDRESSES: Final = (
    "http://me:{}@host:8181/catalog",
    "https://me:{}@host/path?a=b",
    "https://:{}@host",
    "https://me@corp.example:{}@host",
    "jdbc:postgresql://me:{}@host:5432/lake?ssl=true",
    "jdbc:mysql://me:{}@host:3306,other:3306/lake",
    "jdbc:oracle:thin:me/{}@host:1521:lake",
    "jdbc:oracle:thin:me/{}@//host:1521/lake",
    "jdbc:oracle:oci:me/{}@lake",
    'jdbc:oracle:thin:me/"{}"@//host:1521/lake',
    'jdbc:oracle:thin:"me"/"{}"@host:1521:lake',
    "mongodb+srv://me:{}@host/lake",
    "s3://bucket/?X-Amz-Signature={}",
    "https://host/x?token={}",
    "https://host/x?a=1&access_token={}&b=2",
    "https://host/x?key={}&b=2",
    "https://account.example/x?sv=1&sig={}",
    "https://b.example/k?X-Amz-Credential={}&X-Amz-Date=1&X-Amz-Signature=1",
    "https://b.example/k?X-Amz-Security-Token={}&X-Amz-Date=1",
    "https://b.example/k?AWSAccessKeyId=a&Signature={}&Expires=1",
    "jdbc:postgresql://host/lake?user=me&password={}&ssl=true",
    "jdbc:postgresql://host/lake?user=me&sslpassword={}",
    "jdbc:mysql://host/lake?password={}",
    "jdbc:sqlserver://host:1433;user=me;password={};encrypt=true",
    "jdbc:sqlserver://host;password={}",
)
NAMES: Final = (
    "password spark.sql.catalog.lake.jdbc.password sasl.password ssl.key.password PGPASSWORD PASS"
    " ssl.keystore.password ssl.truststore.password ssl.keystore.key passwd pwd Pwd pass DB_PASS"
    " dbPassword passphrase private_key privateKey ssl.private.key secret client_secret"
    " clientSecret fs.s3a.secret.key fs.s3a.access.key fs.s3a.session.token"
    " fs.s3a.encryption.key s3.secret-access-key s3.session-token aws_session_token"
    " AWS_SECRET_ACCESS_KEY accessKeyId token oauth2-token access_token refresh_token"
    " spark.sql.catalog.lake.token spark.sql.catalog.lake.credential sasl.jaas.config"
    " api_key X-Api-Key apikey X-Auth-Token Authorization header.Authorization"
    " Proxy-Authorization Cookie basic.auth.user.info fs.azure.account.key.x.core.example"
    " SharedAccessKey AccountKey google.credentials user_info signing_key"
).split()
SETTINGS: Final = (
    *("{0}={1}", "{0} = {1}", "{0}: {1}", "{0}:{1}", "{0} -> {1}", "{0} => {1}", "({0},{1})"),
    *("a=b, {0}={1}, c=d", "a=b;{0}={1};c=d", "-D{0}={1} -Dc=d", "--conf {0}={1}"),
    *("Map(a -> b, {0} -> {1}, c -> d)", "{{a=b, {0}={1}, c=d}}", "{0}\t{1}", "--{0} {1}"),
    *(
        "export {0}={1}",
        "{0}:\n    {1}",
        "a: 1\n{0}: >-\n    {1}\n    {1}",
        "- {0}: |\n\n    {1}\n",
    ),
    *("{0}:\\n    {1}\\nb: 1", "{0}: |2-\\n    {1}\\n\\n    {1}", "{0}%3D{1}", "a%3D1%26{0}%3d{1}"),
    *("<{0}>{1}</{0}>", "<name>{0}</name><value>{1}</value>", "[(a,b), ({0},{1}), (c,d)]"),
)
PLACES: Final = (
    *("{}", "no answer of {}", "no answer of {}: refused", "look at {}, and again", "({})"),
    *("first\n{}\nlast", 'no "{}"', "no '{}'."),
)


@settings(deadline=None)
@given(secret=BARE, form=st.sampled_from(ADDRESSES), place=st.sampled_from(PLACES))
def test_no_address_tells_a_secret(secret: str, form: str, place: str) -> None:
    assert PART not in without_secrets(place.format(form.format(secret)))
    # As they should be written.
    assert PART not in without_secrets(place.format(form.format(quote(secret, safe=""))))


@settings(deadline=None)
@given(
    secret=BARE,
    name=st.sampled_from(NAMES),
    form=st.sampled_from(SETTINGS),
    place=st.sampled_from(PLACES),
)
def test_no_setting_tells_a_secret(secret: str, name: str, form: str, place: str) -> None:
    assert is_secret(name)
    assert PART not in without_secrets(place.format(form.format(name, secret)))


@pytest.mark.parametrize("form", SETTINGS)
def test_each_form_hides_each_name_in_each_place(form: str) -> None:
    """All that the samples above are taken from: a name that one form alone tells is rare there."""
    told = [
        (name, place)
        for name, place in product(NAMES, PLACES)
        if PART in without_secrets(place.format(form.format(name, f"{PART}{PART}")))
    ]
    assert told == []


@settings(deadline=None)
@given(secret=QUOTED, name=st.sampled_from(NAMES), place=st.sampled_from(PLACES[:6]))
def test_no_quoted_value_tells_a_secret(secret: str, name: str, place: str) -> None:
    pair = {"a": 1, name: secret, "b": [1, 2]}
    texts = [
        json.dumps(pair),
        json.dumps(pair, separators=(",", ":"), ensure_ascii=False),
        json.dumps({"told": json.dumps(pair)}),
        json.dumps([{"name": name, "value": secret}]),
        repr(pair),
        repr({name.encode(): secret.encode()}),
        repr([*pair.items()]),
        f"Row(key={name!r}, value={secret!r})",
        f"set {name}={json.dumps(secret)}",
    ]
    for text in texts:
        assert PART not in without_secrets(place.format(text))


@settings(deadline=None)
@given(
    secret=secrets(DIVIDERS + " ,;&={}[]()<>\\\n\tä€"),
    name=st.sampled_from(NAMES),
    form=st.sampled_from(
        (
            *("OPTIONS ({0} '{1}')", "OPTIONS (url 'x', '{0}' '{1}')", "('{0}' \"{1}\", a 'b')"),
            *("OPTIONS (\n    {0} '{1}',\n    a 'b'\n)", 'OPTIONS (\n    `{0}` "{1}"\n)'),
        )
    ),
)
def test_no_option_of_sql_tells_a_secret(secret: str, name: str, form: str) -> None:
    # As SQL writes it.
    assert PART not in without_secrets(form.format(name, secret.replace("\\", r"\\")))


@settings(deadline=None)
@given(secret=secrets(DIVIDERS + "<> !"), place=st.sampled_from(PLACES))
def test_no_address_tells_a_password_with_spaces(secret: str, place: str) -> None:
    for form in ("https://me:{}@host/path", "jdbc:postgresql://me:{}@host:5432/lake"):
        assert PART not in without_secrets(place.format(form.format(secret)))


@settings(deadline=None)
@given(secret=BARE, place=st.sampled_from(PLACES))
def test_no_login_tells_a_secret(secret: str, place: str) -> None:
    encoded = quote(secret, safe="")
    for login in (
        *(f"curl --user me:{secret} x", f"curl -u me:{secret} x", f"curl -u 'me:{secret}' x"),
        *(f"['curl', '-u', 'me:{secret}']", f"['x', '--password', '{secret}']"),
        *(f"curl --proxy-user=me:{secret}", f"me%3A{encoded}%40host"),
        f"https://host/x?to=https%3A%2F%2Fme%3A{encoded}%40host%2Fpath",
    ):
        assert PART not in without_secrets(place.format(login))


SCHEMES: Final = (
    "Bearer bearer BEARER Basic basic token Token apikey ApiKey JWT OAuth SharedKey Negotiate Any"
).split()


@settings(deadline=None)
@given(secret=BARE, scheme=st.sampled_from(SCHEMES), place=st.sampled_from(PLACES))
def test_no_scheme_of_authorization_tells_a_secret(secret: str, scheme: str, place: str) -> None:
    value = f"{scheme} {secret}"
    for header in (
        *(f"authorization: {value}", f"AUTHORIZATION: {value}", f"Proxy-Authorization={value}"),
        *(f"header.authorization = {value}", f"curl -H 'authorization: {value}' x"),
        *(f"{{b'Authorization': b'{value}'}}", f"[(b'authorization', b'{value}')]"),
        *(f"authorization: {scheme} me:{secret}", f"authorization:\n    {value}"),
        f'authorization: {scheme} a="{secret}", b="{secret}"',
    ):
        assert PART not in without_secrets(place.format(header))


@settings(deadline=None)
@given(secret=BARE, place=st.sampled_from(PLACES))
def test_no_header_tells_a_secret(secret: str, place: str) -> None:
    base64 = b64encode(secret.encode()).decode()
    for header in (
        f"Authorization: Bearer {secret}",
        f"authorization: Basic {base64}",
        f"header.Authorization=Bearer {secret}",
        f"{{Authorization=[Bearer {secret}], Accept=[*/*]}}",
        f"sent with Bearer {secret}",
        f"sent with Basic {base64}",
        f'Authorization: Digest username="me", realm="a", response="{secret}"',
        f"Authorization: AWS4-HMAC-SHA256 Credential={secret}, Signature={secret}",
        f"Cookie: a={secret}; b={secret}",
    ):
        told = without_secrets(place.format(header))
        assert PART not in told and base64 not in told


@settings(deadline=None)
@given(secret=secrets(DIVIDERS + " ;,=ä"))
def test_a_login_of_kafka_tells_no_secret(secret: str) -> None:
    login = f'a.PlainLoginModule required username="me" password="{secret}";'
    for text in (
        f"sasl.jaas.config={login}",
        f"kafka.sasl.jaas.config: {login}",
        json.dumps({"sasl.jaas.config": login}),
        f"no login module in {login}",
    ):
        assert PART not in without_secrets(text)


def test_a_private_key_is_hidden_whole() -> None:
    key = (
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIqz7\nqz7==\n-----END ENCRYPTED PRIVATE KEY-----"
    )
    told = without_secrets(f"ssl.keystore.key is no PEM: {key}, is it?")
    assert PART not in told and told.endswith(", is it?")
    assert PART not in without_secrets(key[:60])
    assert PART not in without_secrets("no eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxqz7.c2lnqz7")


@pytest.mark.parametrize(
    "text",
    [
        "Done. PASS=93 WARN=0 ERROR=0 SKIP=0 NO-OP=2 TOTAL=95",
        "https://host:8181/a/b?c=d, jdbc:postgresql://host:5432/lake, s3://bucket/x.parquet",
        "file:///srv/lake/warehouse/gold/orders/data/00000-1.parquet",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0 is missing",
        "fs.s3a.aws.credentials.provider=org.apache.hadoop.fs.s3a.Simple",
        "basic authentication, a Bearer token, and no token or password of the key columns",
        'record_key={"id":1}, monkey=2, compass=3, user=me',
        "    if not keystore_password:\n        raise Refused",
        "jdbc:postgresql://[::1]:5432,other:5433/lake for me@example.com",
    ],
)
def test_what_is_no_secret_is_told(text: str) -> None:
    assert without_secrets(text) == text


# What errors, logs and tracebacks of this project say, of which some is near to what is hidden.
ORDINARY: Final = (
    *("a change log that is built anew", "compass=1", "bypass the lock", "user:passports"),
    *("passengers: 3", "no password of the key columns", "Pass 'x' as the first argument"),
    *("expected token ',', got 'end of print statement'", "the token 'x' is unexpected"),
    *("1 of 3 PASS not_null_orders_id ....... [PASS in 0.05s]", "PASS=93 WARN=0 ERROR=0"),
    *("docker run --user 1000:1000 lakehouse", "beeline -u jdbc:hive2://127.0.0.1:10000/ -n ana"),
    *("org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized: [orders]",),
    *("select key, op from silver.orders_log where topic = 'user:passports'", "a // b", "a:b:c"),
    *("/srv/lake/warehouse/gold/orders/data/00000-1.parquet", "file:///srv/a#b/%41?c/x.json"),
    *("http://localhost:8181 refused, mail me@example.com", "s3://bucket/a%3Ab/part=1/x.parquet"),
    *("models:\n  - name: orders", "columns:\n  - name: token\n    description: what it was"),
    *(
        "credentials:\n    provider: x",
        "--full-refresh",
    ),
    *("localhost:9092,localhost:9093", "12:00:01  Finished running 3 table models", "a -> b"),
)


@settings(deadline=None)
@given(
    texts=st.lists(st.sampled_from(ORDINARY), min_size=1, max_size=5),
    between=st.sampled_from((" ", ", ", "; ", ". ", "\n")),
)
def test_ordinary_text_stays_as_it_is(texts: list[str], between: str) -> None:
    text = between.join(texts)
    assert without_secrets(text) == text


def test_what_the_profile_calls_a_secret_is_hidden_everywhere() -> None:
    """Without a name beside it, as drivers tell a part of a setting."""
    know_secrets(
        {
            "spark.sql.catalog.lake.jdbc.password": "tr0ub4dor&3",
            "kafka.sasl.jaas.config": 'a.Login required username="me" password="corr3ct horse";',
            "spark.sql.catalog.lake.uri": "jdbc:postgresql://host/x?password=b4ttery&ssl=true",
            "spark.sql.catalog.lake.token": "lakehouse",
        }
    )
    told = without_secrets("no tr0ub4dor&3, tr0ub4dor%263, corr3ct horse, b4ttery for `lakehouse`")
    assert told == "no ***, ***, ***, *** for `lakehouse`"


def test_errors_and_tracebacks_show_no_secrets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert SECRET not in str(ReadError(f"no answer of http://me:{SECRET}@host"))

    def fail(*_: object, **__: object) -> None:
        raise ValueError(f"http://me:a/{SECRET}@host is not an address")

    monkeypatch.setattr(cli.lakehouse, "main", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main(["status"])
    shown = capsys.readouterr()
    assert ended.value.code == 1 and "Traceback" in shown.err and "ValueError" in shown.err
    assert SECRET not in shown.err and "http://me:***@host" in shown.err


@pytest.mark.parametrize("form", [LineFormat.DebugText, LineFormat.Json])
def test_dbts_own_log_shows_no_secrets(tmp_path: Path, form: LineFormat) -> None:
    log = tmp_path / "dbt.log"
    manager = get_event_manager()
    before = [*manager.loggers]
    config = LoggerConfig(
        name=tmp_path.name, line_format=form, level=EventLevel.DEBUG, output_file_name=str(log)
    )
    manager.add_logger(config)
    try:
        # Each command of dbt reads a profile, and some read several.
        hide_secrets()
        hide_secrets()
        fire_event(Note(msg=f'(x.password,{SECRET}) and {{"token": "{SECRET}"}}, that is all'))
    finally:
        manager.loggers[:] = before
        logging.getLogger(tmp_path.name).handlers.clear()
    text = log.read_text()
    assert "that is all" in text and SECRET not in text
    if form == LineFormat.Json:
        assert json.loads(text)["info"]["msg"].startswith("(x.password,***)")


CATALOG: Final = "spark.sql.catalog.lake."


@settings(deadline=None)
@given(secret=BARE)
def test_a_login_in_an_address_is_refused_without_it(secret: str) -> None:
    """What of it is a password can't be told, so nothing of the address is repeated."""
    login = f"me:{secret}"
    redaction._known.clear()
    for given_ in (
        {"type": "rest", "uri": f"http://{login}@host:8181"},
        {"type": "rest", "uri": f"http://host:8181/?token={secret}"},
        {"type": "rest", "uri": "http://host", "oauth2-server-uri": f"http://{login}@host"},
        {"type": "jdbc", "uri": f"jdbc:postgresql://{login}@host:5432/lake"},
        {"type": "jdbc", "uri": "jdbc:sqlite:x.db", "s3.endpoint": f"http://{login}@host:9000"},
    ):
        settings = {CATALOG + name: value for name, value in given_.items()}
        with pytest.raises(ConfigurationError, match="in the profile is not an address") as raised:
            absolute({f"{CATALOG}warehouse": "lake", **settings}, Path("/"))
        assert PART not in str(raised.value) and "me:" not in str(raised.value)
    try:
        registry = Registry(f"http://{login}@host:8081", {})
    except ConfigurationError as error:
        assert PART not in str(error)
    else:
        assert PART not in registry.name


def test_addresses_without_a_login_are_taken() -> None:
    for kind, uri in (
        ("rest", "https://host:8181/api/catalog"),
        ("jdbc", "jdbc:postgresql://host:5432/lake?user=me&password=a/b@c:d#e&ssl=true"),
        ("jdbc", "jdbc:postgresql://[::1]:5432,other:5433/lake"),
        ("jdbc", "jdbc:postgresql:lake"),
        ("jdbc", "jdbc:mysql://me:a@host/lake"),
        ("jdbc", "jdbc:sqlite:/srv/me@host/catalog.db?journal_mode=WAL"),
    ):
        settings = {f"{CATALOG}warehouse": "lake", f"{CATALOG}type": kind, f"{CATALOG}uri": uri}
        assert absolute(settings, Path("/"))[f"{CATALOG}uri"] == uri


@contextmanager
def serving(answers: dict[str, Any], asked: list[tuple[str, dict[str, str]]]) -> Iterator[int]:
    """A server that answers paths with JSON, or sends on to an address; what it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, dict(self.headers)))
            answer = answers.get(self.path.partition("?")[0], {})
            if isinstance(answer, str):
                self.send_response(307)
                self.send_header("Location", answer)
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: Any) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_no_other_server_gets_the_token_and_headers() -> None:
    asked: list[tuple[str, dict[str, str]]] = []
    elsewhere: list[tuple[str, dict[str, str]]] = []
    answers: dict[str, Any] = {"/v1/config": "/config", "/config": {}}
    with serving({}, elsewhere) as other, serving(answers, asked) as port:
        properties = {
            "uri": f"http://127.0.0.1:{port}",
            "token": SECRET,
            "header.X-Tenant": "blue",
        }
        # To itself, it may send on.
        server = Server(properties)
        assert [path.partition("?")[0] for path, _ in asked] == ["/v1/config", "/config"]
        assert asked[-1][1]["Authorization"] == f"Bearer {SECRET}"
        for place in (
            # By another name, it may be another one.
            *(f"http://127.0.0.1:{other}/", f"http://localhost:{other}/v1/namespaces"),
            *(f"http://localhost:{port}/", "ftp://127.0.0.1/", "//127.0.0.1:1/"),
        ):
            answers["/v1/namespaces"] = place
            with pytest.raises(ReadError, match=r"it sends on .*neither the login nor") as raised:
                server.schemas()
            assert SECRET not in str(raised.value)
        answers["/schemas/ids/1"] = f"http://127.0.0.1:{other}/schemas/ids/1"
        registry = Registry(f"http://me:{SECRET}@127.0.0.1:{port}", {})
        with pytest.raises(RegistryError, match=r"it sends on to http://127\.0\.0\.1"):
            registry.find(1)
        assert elsewhere == []
        # What HTTP doesn't send is no answer of the server's.
        with pytest.raises(ConfigurationError, match="HTTP doesn't send the profile's") as refused:
            Server({**properties, "token": f"{SECRET}\nX: y"})
        assert SECRET not in str(refused.value)


def test_neither_logs_nor_the_process_list_have_secrets(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A model fails on a value, in a lake whose settings have secrets."""
    project = copy_project(tmp_path / "project")
    profile = project / "profiles" / "profiles.yml"
    settings = f"""\
        spark.sql.catalog.lake.jdbc.password: {SECRET}
        spark.hadoop.fs.s3a.secret.key: {SECRET}
        spark.sql.catalog.lake.type: jdbc
"""
    profile.write_text(
        profile.read_text().replace("        spark.sql.catalog.lake.type: jdbc\n", settings)
    )
    for number, value in enumerate(BAD_VALUES):
        (project / "models" / f"bad_value_{number}.sql").write_text(
            "{{ config(materialized='table', pre_hook='set spark.sql.ansi.enabled=true') }}"
            f"select {value} as a from (select concat('hunt', 'er', id) as s from range(2, 3))"
        )
    lake = Lake(tmp_path, project)
    outcomes = lake.outcomes("run", "-s", "path:models/bad_value_*.sql", as_of="2026-11-21")
    for number, condition in enumerate(BAD_VALUES.values()):
        status, message = outcomes[f"bad_value_{number}"]
        assert status == "error" and condition in message and "***" in message
    processes = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True)
    assert "org.apache.spark" in processes.stdout and SECRET not in processes.stdout
    log = (tmp_path / "logs" / "dbt.log").read_text()
    assert "CAST_INVALID_INPUT" in log and SECRET not in log
    shown = capfd.readouterr()
    assert "CAST_INVALID_INPUT" in shown.out and SECRET not in shown.out + shown.err
    assert lake.spark.conf.get("spark.sql.catalog.lake.jdbc.password") == SECRET
