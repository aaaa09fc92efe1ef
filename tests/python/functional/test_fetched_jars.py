"""Jars come from where the user says, and others than the locked ones are not used. Ivy runs in a
JVM of its own.
"""

import shutil
from pathlib import Path

import pytest

from dbt_lakehouse.errors import JarError
from dbt_lakehouse.spark import jars
from dbt_lakehouse.spark.jars import JARS, Jar, ensure_jars

SMALLEST = min(JARS, key=lambda jar: jar.path.stat().st_size if jar.path.exists() else 1 << 40)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one jar in a folder, and a cache of the test's own."""
    (held,) = ensure_jars([SMALLEST])
    group, artifact, version = SMALLEST.coordinates.split(":")
    folder = tmp_path / "mirror" / group.replace(".", "/") / artifact / version
    folder.mkdir(parents=True)
    shutil.copy(held, folder / f"{artifact}-{version}.jar")
    (folder / f"{artifact}-{version}.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion>"
        f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        "</project>"
    )
    monkeypatch.setattr(jars, "CACHE", tmp_path / "cache")
    (tmp_path / "cache").mkdir()
    return tmp_path / "mirror"


def test_a_mirror_has_them_and_a_changed_one_is_fetched_again(
    mirror: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        "<ivysettings><settings defaultResolver='mirror'/><resolvers>"
        f"<ibiblio name='mirror' m2compatible='true' root='{mirror.as_uri()}/'/>"
        "</resolvers></ivysettings>"
    )
    monkeypatch.setenv("LAKEHOUSE_IVY_SETTINGS", str(settings))
    (tmp_path / "cache" / "jars").mkdir()
    SMALLEST.path.write_bytes(b"half of it")
    (path,) = ensure_jars([SMALLEST])
    assert f"{path} is not {SMALLEST.coordinates}, by its SHA-256" in capsys.readouterr().err
    assert tmp_path in path.parents and path.stat().st_size > 1000
    # Then without any look elsewhere.
    shutil.rmtree(mirror)
    assert ensure_jars([SMALLEST]) == [path]


def test_other_bytes_than_the_locked_ones_are_refused(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"{mirror.as_uri()}/")
    with pytest.raises(JarError, match=f"{SMALLEST.coordinates} has SHA-256 .*, locked is 0000"):
        ensure_jars([Jar(SMALLEST.coordinates, "0000")])
