"""The software bill of materials: `make sbom` writes target/sbom.cdx.json, in CycloneDX's form.

It lists what the locks say and nothing else: Python packages as requirements.txt pins them, each
with the SHA-256 of every file of its that may be installed, and Spark's jars, as they are checked
at each start. What only some platforms install is left out where it isn't installed.
"""

import json
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.spark.jars import JARS, S3_JARS

_PACKAGE: Final = re.compile(
    r"^([A-Za-z0-9._-]+)==([^ ;\\\n]+)[^\n]*((?:\n +--hash=[^\n]*)+)", re.MULTILINE
)
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
        "components": [*_packages(), *_jars()],
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


def _part(name: str, pinned: str, purl: str) -> dict[str, Any]:
    return {"type": "library", "bom-ref": purl, "name": name, "version": pinned, "purl": purl}


if __name__ == "__main__":
    file = ROOT / "target" / "sbom.cdx.json"
    file.parent.mkdir(exist_ok=True)
    bill = materials()
    file.write_text(json.dumps(bill, indent=2) + "\n")
    print(f"wrote {file}: {len(bill['components'])} packages and jars")
