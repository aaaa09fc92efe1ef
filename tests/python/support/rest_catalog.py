"""A server of a REST catalog of a test's own: Iceberg's, with which its own clients are tested. It
keeps its tables in a SQLite file.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from dbt_lakehouse.config.paths import LOOPBACK
from dbt_lakehouse.spark.jars import JARS, S3_JARS, Jar, ensure_jars
from local_kafka.broker import free_port
from local_kafka.jars import BROKER_JARS, from_pyspark
from local_kafka.servers import server

# The newest whose tests' jars are published with all that they need.
_ICEBERG: Final = "1.10.1"
_JETTY: Final = "11.0.26"
_MAIN: Final = "org.apache.iceberg.rest.RESTCatalogServer"
SERVER_JARS: Final = (
    Jar(
        f"org.apache.iceberg:iceberg-open-api:{_ICEBERG}:test-fixtures",
        "ec4dce1663933e3520227da8238a980d52b7eccac532c1953f337dc1e6ee597b",
    ),
    Jar(
        f"org.apache.iceberg:iceberg-core:{_ICEBERG}:tests",
        "8c18111a61ea40ba23114e10e33bacfceca6cf36d2c9a932d880e0100f14af1e",
    ),
    Jar(
        f"org.apache.iceberg:iceberg-core:{_ICEBERG}",
        "5dc1472e3a393d9d5a713aedee7007cebdf62cabbe82c72feb6d3da8e50d7216",
    ),
    Jar(
        f"org.apache.iceberg:iceberg-api:{_ICEBERG}",
        "9c806b96f20882d1e5e7a4b9a8d7bc1fa32917b509af4e6d139afaa09a288396",
    ),
    Jar(
        f"org.apache.iceberg:iceberg-common:{_ICEBERG}",
        "167791c08975f299ebae6c508ea872b899673c33dc2911e4c265f95b96a656f1",
    ),
    Jar(
        f"org.apache.iceberg:iceberg-bundled-guava:{_ICEBERG}",
        "05b79072e19071b1bcf7a4e382d624b3b2ccad6eaf79627676219bb48e4e834d",
    ),
    Jar(
        f"org.eclipse.jetty:jetty-server:{_JETTY}",
        "3cc3b203b96c7115151ea94cad8af43c0914bfb6fe20cf2ca8378ec6822fa471",
    ),
    Jar(
        f"org.eclipse.jetty:jetty-servlet:{_JETTY}",
        "c09469f1045f9e207732692b3bc56e8fe4d0599de52d3bd593927c4a9060e679",
    ),
    Jar(
        f"org.eclipse.jetty:jetty-security:{_JETTY}",
        "1f0a1b58304741f243e2f6ac694e6506b1e26bb079cfc2baaa3f2a6ed4bf2d9f",
    ),
    Jar(
        f"org.eclipse.jetty:jetty-http:{_JETTY}",
        "de738c8cfd5701627b5373c42376453beb8276f989d75e5258e3b1ffe217e938",
    ),
    Jar(
        f"org.eclipse.jetty:jetty-io:{_JETTY}",
        "ce0ef76071e361d97f102e5cb48928b3cc66ac899d12be3ef0af8d06b4f768a1",
    ),
    Jar(
        f"org.eclipse.jetty:jetty-util:{_JETTY}",
        "1b61b875a6d40e8fd44cffb307bdb66f3459370a152a50a092a698c3737eeca9",
    ),
    Jar(
        "org.apache.httpcomponents.core5:httpcore5:5.3.4",
        "f2b2fd7a0164e8c3120cd8437bc9fea439239e165c17262b3e907daa7e979f80",
    ),
    Jar(
        f"org.apache.iceberg:iceberg-aws:{_ICEBERG}",
        "28229076a64512513e7142e7a5cf088dc18393c066887373d9c0616ba0c071b3",
    ),
    # Of the version of AWS's SDK in the bundle, whose own client Iceberg 1.10 doesn't know.
    Jar(
        "software.amazon.awssdk:url-connection-client:2.54.17",
        "72be77373c797aaf46e2a20d6a439eb68b4e8a3ef98d335c56cb7a1bf2812217",
    ),
    Jar(
        "dev.failsafe:failsafe:3.3.2",
        "2c5dc879a6dac7ea3a7b29d795e27bd49b8e7908b05c2f3e56053c19d79850f5",
    ),
    # Of Spark's and the broker's.
    *S3_JARS,
    *(jar for jar in JARS if ":sqlite-jdbc:" in jar.coordinates),
    *(jar for jar in BROKER_JARS if ":caffeine:" in jar.coordinates),
)
PYSPARK_JARS: Final = (
    "RoaringBitmap",
    "avro",
    "hadoop-client-api",
    "hadoop-client-runtime",
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
    "jakarta.servlet-api",
    "log4j-api",
    "log4j-core",
    "log4j-slf4j2-impl",
    "slf4j-api",
)


@contextmanager
def rest_catalog(folder: Path, warehouse: str, **storage: str) -> Iterator[str]:
    """A server with its file in ``folder``, as long as the block runs, which puts new tables in
    ``warehouse``, the address of a folder that it reaches by the properties ``storage``; its
    address.
    """
    port = free_port()
    address = f"http://{LOOPBACK}:{port}"
    java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME')}/bin:{os.environ['PATH']}")
    assert java is not None
    jars = [*ensure_jars(SERVER_JARS), *map(from_pyspark, PYSPARK_JARS)]
    settings = {
        "CATALOG_URI": f"jdbc:sqlite:{folder}/rest.db?journal_mode=WAL&busy_timeout=30000",
        "CATALOG_WAREHOUSE": warehouse,
        "CATALOG_REST_PORT": str(port),
    }
    for name, value in storage.items():
        settings[f"CATALOG_{name.upper().replace('-', '__').replace('.', '_')}"] = value
    options = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    program = [java, *options, "-cp", os.pathsep.join(map(str, jars)), _MAIN]
    up = partial(_answers, f"{address}/v1/config")
    with server(program, folder / "rest.log", up, environment=settings):
        yield address


def _answers(address: str) -> bool:
    try:
        with urlopen(address):
            return True
    except URLError:
        return False
