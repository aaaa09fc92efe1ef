"""What nobody may read who is not meant to: passwords in process lists, logs and errors, and values
of the data in errors.
"""

import subprocess
from pathlib import Path

import pytest
from lakes import Lake, copy_project

from dbt_lakehouse.spark.java_errors import without_secrets

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
    told = without_secrets(text)
    assert SECRET not in told and "12345" not in told
    assert shown.lstrip("…") in told


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
