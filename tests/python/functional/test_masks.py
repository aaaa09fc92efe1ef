"""Masked columns through dbt: no file of silver, gold or dbt has a clear value."""

import hmac
from pathlib import Path
from typing import Final

import pytest
from support.lakes import Lake
from support.needles import holders
from support.small_messages import row_change
from support.small_project import Gold, Log, add_gold, add_log, small_project
from support.streams import Message

from dbt_lakehouse.commands.forget.forget_steps import Options, forget
from dbt_lakehouse.commands.why.events import keyed_table
from dbt_lakehouse.commands.why.explained_row import why
from dbt_lakehouse.commands.why.why_output import Reason
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.session.dbt_commands import read_manifest

SECRET: Final = "needle-of-clear-text@example.org"
KEY: Final = "needle-of-the-mask-key"
MASKED: Final = {"type": "string", "mask": "hash"}
CARD: Final = {"type": "string", "mask": "last4"}
BORN: Final = {"type": "date", "mask": "null"}
PEOPLE: Final = Log(
    "people", "people", {"id": "int"}, {"email": MASKED, "card": CARD, "born": BORN}
)
MAILS: Final = Log("mails", "mails", {"id": {"type": "int", "mask": "hash"}}, {"receiver": MASKED})
AS_OF: Final = "2026-11-21 00:00:00"


def people_and_mails() -> list[Message]:
    topic, people, mails = "debezium.masks", {"table": "people"}, {"table": "mails"}
    person = {"email": SECRET, "card": f"{SECRET}-0042", "born": SECRET}
    return [
        row_change(topic, 0, "c", 1, people, **person),
        row_change(topic, 1, "c", 2, people, email="other", card=None, born="1990-01-02"),
        row_change(topic, 2, "c", 7, mails, receiver=SECRET),
        row_change(topic, 3, "c", 8, mails, receiver="other"),
        deleted := row_change(topic, 4, "d", 8, mails),
        deleted._replace(offset=5, value=None),
    ]


def hashed(text: str) -> str:
    return hmac.digest(KEY.encode(), text.encode(), "sha256").hex()


def test_only_bronze_has_clear_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_MASK_KEY", KEY)
    project = small_project(tmp_path / "project", quarantine=True)
    for log in (PEOPLE, MAILS):
        add_log(project, log)
        add_gold(project, Gold(log.name, log.current_state_text(), log.current_state_types()))
    folder = tmp_path / "lake of masks"
    lake = Lake(folder, project)
    lake.land(each.line() for each in people_and_mails())
    outcomes = lake.dbt("run", as_of=AS_OF)
    assert {outcomes[each] for each in ("people", "people_changes", "mails")} == {"success"}

    people = {row["id"]: row for row in lake.read("gold.people")}
    assert people[1]["card"] == "*" * len(f"{SECRET}-") + "0042"
    assert (people[2]["card"], people[2]["born"]) == (None, None)
    (row,) = lake.sql("select _misfits from silver.people_changes where id = 1")
    assert row["_misfits"] == [{"column": "born", "text": "(masked)"}]
    joined = lake.sql(
        "select people.id, mails.id as mail from gold.people as people"
        " inner join gold.mails as mails on people.email = mails.receiver"
    )
    assert [(each["id"], each["mail"]) for each in joined] == [(1, hashed("7"))]

    found = {path.relative_to(tmp_path) for path in holders(tmp_path, [SECRET.encode()])}
    assert found and all("bronze" in path.parts for path in found)
    assert holders(tmp_path, [KEY.encode()]) == set()

    # A hashed key is asked for and forgotten by its clear value, the latter with its tombstone.
    with lake.dbt_folders():
        asked = keyed_table(read_manifest(lake.load()).nodes, "mails")
        answer = why(lake.reader(), asked, '{"id": 7}')
        assert (answer.reason, answer.differences) == (Reason.LIVE, [])
        with monkeypatch.context() as other:
            other.setenv("LAKEHOUSE_MASK_KEY", "another key of masks")
            with pytest.raises(ConfigurationError, match="was built by another LAKEHOUSE_MASK_KEY"):
                forget(lake.load(captures=[], as_of=AS_OF), Options("mails", ['{"id": 8}']))
        report = forget(lake.load(captures=[], as_of=AS_OF), Options("mails", ['{"id": 8}']))
    assert report.rows["silver.mails_changes"] == 2
    assert [row["id"] for row in lake.read("silver.mails_changes")] == [hashed("7")]
    emptied = [row["offset"] for row in lake.read("bronze.raw_payloads") if row["key"] is None]
    assert sorted(emptied) == [3, 4, 5]
