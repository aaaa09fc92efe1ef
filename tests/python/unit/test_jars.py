"""The bill of materials names the locked jars; proxies of the environment are Java's too."""

import importlib.metadata
from pathlib import Path

import pyspark

from dbt_lakehouse.spark.jars import JARS, S3_JARS, _proxy_options, digest
from tools.documents.sbom import materials


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
