"""The jars that Spark needs beside PySpark's own: exact coordinates, resolved once, cached in the
checkout.

Each jar is named with its version and nothing is resolved transitively, so this list is the lock
file. PySpark's own resolver (Ivy, in a JVM without a Spark session) fetches them into a cache of
our own: a half-filled Maven cache in the user's home breaks Ivy, and nothing is written outside
the checkout. The user chooses the repository:

    DEFAULT_ARTIFACT_REPOSITORY     a mirror's address, as Spark itself reads it
    LAKEHOUSE_IVY_SETTINGS          an ivysettings.xml, as `spark.jars.ivySettings` names one
    HTTPS_PROXY, HTTP_PROXY         a proxy; SPARK_SUBMIT_OPTS has Java's own options
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies

from py4j.protocol import Py4JJavaError

from dbt_lakehouse.config.paths import CACHE, LOG4J, LOOPBACK, cache_folder
from dbt_lakehouse.errors import JarError
from dbt_lakehouse.spark.java import environment, java_option, start_java
from dbt_lakehouse.telling import tell, working
from dbt_lakehouse.texts import counted


class Jar(NamedTuple):
    """An artifact: its Maven coordinates (group, name, version and, if it has one, classifier;
    for an archive other than a jar, with ``@tar.gz`` behind them) and the SHA-256 of the file.
    """

    coordinates: str
    sha256: str

    @property
    def path(self) -> Path:
        """Where the jar is cached; the name carries the version."""
        names, _, kind = self.coordinates.partition("@")
        return CACHE / "jars" / f"{'-'.join(names.split(':')[1:])}.{kind or 'jar'}"


JARS: Final = (
    # Iceberg for Spark 4.1: tables, catalogs, MERGE.
    Jar(
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
    ),
    # The default catalog is a SQLite file.
    Jar(
        "org.xerial:sqlite-jdbc:3.51.0.0",
        "b0ca8cf80d6eff80ee18aa6e8a6aa72f697af0bf9c822c4b2ad9e35c7a3146e1",
    ),
    # A shared catalog in PostgreSQL, chosen by the profile.
    Jar(
        "org.postgresql:postgresql:42.7.8",
        "2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7",
    ),
    # Spark's Kafka source.
    Jar(
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
        "cb31ffd9c8f5527dba061db8af671d295562092e4f3f5ff42fc249fab8a8fde6",
    ),
    # Its authentication: the one version that repositories are certain to have; its methods match.
    Jar(
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    # Kafka's own clients: the source's consumer, and the AdminClient, which is used before
    # reading.
    Jar(
        "org.apache.kafka:kafka-clients:3.9.1",
        "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
    ),
    # The pool of the source's consumers.
    Jar(
        "org.apache.commons:commons-pool2:2.12.1",
        "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef",
    ),
)

# Iceberg's access to buckets, with AWS's SDK: only for a lake whose profile names a bucket.
S3_JARS: Final = (
    Jar(
        "org.apache.iceberg:iceberg-aws-bundle:1.12.0",
        "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
    ),
)


def ensure_jars(jars: Sequence[Jar] = JARS) -> list[Path]:
    """The paths of the jars, Spark's or others. Resolves those that the cache lacks, or whose
    checksum differs from the lock.

    Raises ``JarError`` if one can't be resolved or differs from its locked checksum, and
    ``SessionError`` without a Java to resolve it.
    """
    missing = [jar for jar in jars if not _is_held(jar)]
    for jar in missing:
        if jar.path.exists():
            tell(f"{jar.path} is not {jar.coordinates}, by its SHA-256: it is downloaded again")
    if missing:
        _resolve(missing)
    return [jar.path for jar in jars]


def are_held(jars: Sequence[Jar]) -> bool:
    """Whether the cache has all of the jars, so that nothing has to be fetched."""
    return all(map(_is_held, jars))


def _is_held(jar: Jar) -> bool:
    return jar.path.exists() and digest(jar.path) == jar.sha256


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    found = path.stat()
    return _digest_of(path, found.st_mtime_ns, found.st_size)


@cache
def _digest_of(path: Path, modified: int, size: int) -> str:
    # Once per process for each file state: every dbt command opens the lake.
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _resolve(jars: list[Jar]) -> None:
    cache_folder("jars")
    # A folder per call: Ivy's cache is not safe for two processes.
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="ivy-") as ivy_dir:
        with working(f"fetching {counted(len(jars), 'jar')}", lambda: _fetched(Path(ivy_dir))):
            resolved = _run_ivy([jar.coordinates for jar in jars], ivy_dir)
        for jar in jars:
            found = resolved.get(jar.coordinates)
            if found is None:
                raise JarError(
                    f"{jar.coordinates} could not be resolved: is the network reachable, or does a"
                    " mirror (DEFAULT_ARTIFACT_REPOSITORY) have it?"
                )
            got = digest(found)
            if got != jar.sha256:
                raise JarError(f"{jar.coordinates} has SHA-256 {got}, locked is {jar.sha256}")
            # Copy beside the target first: a rename is atomic, so no process sees half a jar.
            partial = jar.path.with_suffix(f".{os.getpid()}")
            shutil.copyfile(found, partial)
            partial.replace(jar.path)


def _fetched(folder: Path) -> str:
    """The amount in a folder so far."""
    sizes = []
    for file in folder.rglob("*.jar*"):
        # Ivy renames a file when it is complete.
        with suppress(FileNotFoundError):
            sizes.append(file.stat().st_size)
    return f"{sum(sizes) / 1e6:,.0f} MB"


def _run_ivy(coordinates: list[str], ivy_dir: str) -> dict[str, Path]:
    """The path at which Ivy has put each of the coordinates, without those that it could not
    resolve.
    """
    with _gateway_at_home_in(ivy_dir) as gateway:
        jvm = gateway.jvm
        maven = getattr(jvm, "org.apache.spark.util.MavenUtils$").__getattr__("MODULE$")
        nothing = getattr(jvm, "scala.None$").__getattr__("MODULE$")
        log = jvm.java.io.PrintStream(jvm.java.io.ByteArrayOutputStream())
        try:
            folder = jvm.scala.Some(ivy_dir)
            settings = (
                maven.loadIvySettings(given, nothing, folder, log)
                if (given := os.environ.get("LAKEHOUSE_IVY_SETTINGS"))
                else maven.buildIvySettings(nothing, folder, True, log)
            )
            # Ivy's messages go there.
            jvm.System.setOut(log)
            ivy = jvm.org.apache.ivy.Ivy.newInstance(settings)
            found = {each: _resolved(jvm, ivy, each) for each in coordinates}
        except Py4JJavaError as error:
            reason = error.java_exception.getMessage()
            raise JarError(f"jars could not be resolved: {reason}") from None
    return {each: path for each, path in found.items() if path is not None}


def _resolved(jvm: Any, ivy: Any, coordinates: str) -> Path | None:
    """The path at which Ivy has put one jar, None if it could not resolve it."""
    names_of, _, kind = coordinates.partition("@")
    group, name, version, *classifier = names_of.split(":")
    names = jvm.org.apache.ivy.core.module.id.ModuleRevisionId
    descriptors = jvm.org.apache.ivy.core.module.descriptor
    asked = descriptors.DefaultDependencyDescriptor(names.newInstance(group, name, version), False)
    asked.addDependencyConfiguration("default", "default(runtime)")
    attributes = {"classifier": classifier[0]} if classifier else {}
    asked.addDependencyArtifact(
        "default",
        descriptors.DefaultDependencyArtifactDescriptor(
            asked, name, kind or "jar", kind or "jar", None, attributes
        ),
    )
    asking = descriptors.DefaultModuleDescriptor.newDefaultInstance(
        names.newInstance("lakehouse", "lakehouse", version)
    )
    asking.addDependency(asked)
    options = jvm.org.apache.ivy.core.resolve.ResolveOptions()
    reports = ivy.resolve(asking, options.setTransitive(False)).getAllArtifactsReports()
    files = [report.getLocalFile() for report in reports]
    return Path(files[0].getPath()) if files and files[0] is not None else None


def _proxy_options(proxies: Mapping[str, str]) -> list[str]:
    """Java's options for the proxies of the environment, by scheme as ``getproxies`` has them."""
    options = []
    for scheme in ("http", "https"):
        proxy = urlsplit(proxies.get(scheme, ""))
        if proxy.hostname is not None:
            port = proxy.port or 80
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={port}"]
    if direct := proxies.get("no"):
        hosts = (host.strip() for host in direct.split(",") if host.strip())
        named = "|".join(f"*{host}" if host.startswith(".") else host for host in hosts)
        options.append(f"-Dhttp.nonProxyHosts={named}")
    return options


@contextmanager
def _gateway_at_home_in(folder: str) -> Iterator[Any]:
    """A JVM without a Spark session. An empty user home keeps Ivy and Spark's resolver away from
    ~/.m2 and ~/.ivy2; the user's own options, such as a proxy, stay in force.
    """
    given = os.environ.get("SPARK_SUBMIT_OPTS")
    ours = [f"-Duser.home={folder}", f"-Dlog4j2.configurationFile={LOG4J.as_uri()}"]
    # Of duplicates, Java takes the last, so the user's options win.
    proxies = map(java_option, _proxy_options(getproxies()))
    options = [*proxies, *([given] if given else []), *map(java_option, ours)]
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    with environment({"SPARK_SUBMIT_OPTS": " ".join(options)}):
        gateway = start_java()
    try:
        yield gateway
    finally:
        gateway.shutdown()
        # The JVM ends with its standard input.
        gateway.proc.communicate()
