"""The software bill of materials: `make sbom` writes target/sbom.cdx.json, in CycloneDX's form.

It lists what the locks say: Python packages as requirements.txt pins them, each with the SHA-256 of
every file of its that may be installed, and the jars that are fetched, as they are checked at each
start; and the jars that PySpark's package brings along, as they are installed. What only some
platforms install is left out where it isn't installed.
"""

import json
import re
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any, Final

from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.spark.jars import JARS, S3_JARS, digest

_PACKAGE: Final = re.compile(
    r"^([A-Za-z0-9._-]+)==([^ ;\\\n]+)[^\n]*((?:\n +--hash=[^\n]*)+)", re.MULTILINE
)
_JAR: Final = re.compile(r"(.+?)-(\d[^/]*)")
_MAVEN: Final = re.compile(r"META-INF/maven/([^/]+)/([^/]+)/pom\.properties")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def materials() -> dict[str, Any]:
    """The bill, without a time or a number of its own: of the same locks it is the same."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "cdc_lakehouse",
                "name": "cdc_lakehouse",
                "version": version("cdc_lakehouse"),
            }
        },
        "components": [*_packages(), *_jars(), *_jars_of_pyspark()],
    }


def _packages() -> Iterator[dict[str, Any]]:
    for name, pinned, hashes in _PACKAGE.findall((ROOT / "requirements.txt").read_text()):
        try:
            version(name)
        except PackageNotFoundError:
            continue
        # A package has several files, one of which is installed: CycloneDX's hashes are of one.
        files = [{"name": "sha256", "value": each} for each in _HASH.findall(hashes)]
        yield _part(name, pinned, f"pkg:pypi/{name}@{pinned}") | {"properties": files}


def _jars() -> Iterator[dict[str, Any]]:
    for jar in (*JARS, *S3_JARS):
        group, name, pinned = jar.coordinates.split(":")
        part = _part(name, pinned, f"pkg:maven/{group}/{name}@{pinned}")
        yield part | {"group": group, "hashes": [{"alg": "SHA-256", "content": jar.sha256}]}


def _jars_of_pyspark() -> Iterator[dict[str, Any]]:
    """Named by what Maven has left in them; a few say nothing but their file's name."""
    folder = Path(str(distribution("pyspark").locate_file("pyspark/jars")))
    for jar in sorted(folder.glob("*.jar")):
        named = _JAR.fullmatch(jar.stem)
        name, pinned = named.groups() if named else (jar.stem, "")
        with zipfile.ZipFile(jar) as opened:
            found = [match for each in opened.namelist() if (match := _MAVEN.fullmatch(each))]
        # Others' are of what was put into it.
        group = next((each[1] for each in found if each[2] == name), None)
        purl = f"pkg:maven/{group}/{name}@{pinned}" if group else f"pkg:generic/{name}@{pinned}"
        part = _part(name, pinned, purl) | ({"group": group} if group else {})
        # A jar of that name and version may be among those that are fetched.
        part["bom-ref"] = f"pyspark/jars/{jar.name}"
        yield part | {"hashes": [{"alg": "SHA-256", "content": digest(jar)}]}


def _part(name: str, pinned: str, purl: str) -> dict[str, Any]:
    return {"type": "library", "bom-ref": purl, "name": name, "version": pinned, "purl": purl}


if __name__ == "__main__":
    file = ROOT / "target" / "sbom.cdx.json"
    file.parent.mkdir(exist_ok=True)
    bill = materials()
    file.write_text(json.dumps(bill, indent=2) + "\n")
    print(f"wrote {file}: {len(bill['components'])} packages and jars")
