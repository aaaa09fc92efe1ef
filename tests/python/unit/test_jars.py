"""Jars are those that are locked, and come from where the user says."""

import importlib.metadata
import shutil
from pathlib import Path

import pyspark
import pytest

from dbt_lakehouse.errors import JarError
from dbt_lakehouse.spark import jars
from dbt_lakehouse.spark.jars import JARS, S3_JARS, Jar, _proxy_options, digest, ensure_jars
from tools.documents.sbom import materials

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


def test_the_bill_of_materials_names_what_is_installed_and_the_jars() -> None:
    bill = materials()
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    parts = {each["bom-ref"]: each for each in bill["components"]}
    assert len(parts) == len(bill["components"]) > 60
    assert parts["pkg:pypi/pyspark@4.1.3"]["properties"][0]["name"] == "sha256"
    for name, version in ((each["name"], each["version"]) for each in bill["components"]):
        if f"pkg:pypi/{name}@{version}" in parts:
            assert importlib.metadata.version(name) == version
    for jar in (*JARS, *S3_JARS):
        group, artifact, version = jar.coordinates.split(":")
        part = parts[f"pkg:maven/{group}/{artifact}@{version}"]
        assert part["hashes"] == [{"alg": "SHA-256", "content": jar.sha256}]
    # Those that Spark itself is.
    installed = {each.name: each for each in Path(pyspark.__file__).parent.glob("jars/*.jar")}
    named = {ref.rpartition("/")[2] for ref in parts if ref.startswith("pyspark/jars/")}
    assert named == installed.keys() and len(named) > 200
    (core,) = (name for name in named if name.startswith("spark-core_"))
    part = parts[f"pyspark/jars/{core}"]
    assert part["purl"] == "pkg:maven/org.apache.spark/spark-core_2.13@4.1.3"
    assert part["hashes"] == [{"alg": "SHA-256", "content": digest(installed[core])}]


def test_proxies_of_the_environment_are_javas_too() -> None:
    assert _proxy_options({}) == []
    assert _proxy_options(
        {"https": "http://me:hunter2@proxy.example.org:3128", "no": "localhost, .example.net"}
    ) == [
        "-Dhttps.proxyHost=proxy.example.org",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|*.example.net",
    ]
