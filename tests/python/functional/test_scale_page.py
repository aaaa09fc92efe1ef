"""docs/scale.md: what it says of YARN and Kubernetes, against Spark's own code and the schemas of
Kubernetes, without a cluster.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml
from support.small_project import small_project

from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.lake.catalog import absolute
from dbt_lakehouse.session.opening import _for_command_line, _with_ours
from dbt_lakehouse.session.project import ProjectOptions, load
from dbt_lakehouse.spark.functions_archive import functions_archive
from dbt_lakehouse.spark.java import start_java

PAGE: Final = (ROOT / "docs" / "scale.md").read_text()
MANIFESTS: Final = (ROOT / "deploy" / "kubernetes.yaml").read_text()
TARGETS: Final = re.findall(r"```yaml\n(    (\w+):\n      <<: \*dev\n.*?)```", PAGE, re.S)
# The oldest and the newest whose schemas are at hand.
KUBERNETES: Final = ("1.25", "1.37")
# Where names go on as the user likes.
FAMILIES: Final = ("spark.sql.catalog.lake.", "spark.kubernetes.executor.secretKeyRef.")
# Objects that declare settings as they are loaded.
DECLARED: Final = (
    *("internal.config.package$", "deploy.k8s.Config$", "deploy.yarn.config.package$"),
    *("sql.internal.SQLConf$", "internal.config.Python$"),
)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """Spark's classes (``org.apache.spark``), and Java's."""
    gateway = start_java()
    for name in DECLARED:
        gateway.jvm.java.lang.Class.forName(f"org.apache.spark.{name}")
    yield gateway.jvm
    gateway.shutdown()
    # The JVM ends with its standard input.
    gateway.proc.communicate()


@pytest.fixture
def settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> dict[str, str]:
    """What the session gives to Spark with a target of the page."""
    project = small_project(tmp_path / "project")
    with (project / "profiles" / "profiles.yml").open("a") as profile:
        profile.writelines(text for text, _ in TARGETS)
    for name in ("POD_IP", "POD_NAME", "LAKEHOUSE_CATALOG_PASSWORD"):
        monkeypatch.setenv(name, name.lower().replace("_", "-"))
    found = load(ProjectOptions(str(project), str(project / "profiles"), target=request.param))
    return _with_ours(absolute(found.parameters, found.root))


def _object(spark: Any, name: str) -> Any:
    """An object of Scala's."""
    return getattr(getattr(spark, f"{name}$"), "MODULE$")


def submitted(spark: Any, settings: dict[str, str], **environment: str) -> dict[str, str]:
    """The settings that `spark-submit` starts the driver with, as PySpark calls it."""
    given = _for_command_line(settings)
    texts = [text for name, value in given.items() for text in ("--conf", f"{name}={value}")]
    scala = spark.scala.jdk.javaapi.CollectionConverters
    words, variables = spark.java.util.ArrayList(), spark.java.util.HashMap(environment)
    for text in [*texts, "pyspark-shell"]:
        words.add(text)
    immutable = getattr(_object(spark, "scala.collection.immutable.Map"), "from")(
        scala.asScala(variables)
    )
    arguments = spark.org.apache.spark.deploy.SparkSubmitArguments(
        scala.asScala(words).toSeq(), immutable
    )
    prepared = spark.org.apache.spark.deploy.SparkSubmit().prepareSubmitEnvironment(
        arguments, _object(spark, "scala.None")
    )
    assert prepared._4() == "org.apache.spark.api.python.PythonGatewayServer"
    return {each._1(): each._2() for each in prepared._3().getAll()}


def test_the_page_has_a_target_for_each() -> None:
    assert [name for _, name in TARGETS] == ["yarn", "kubernetes"]


@pytest.mark.parametrize("settings", ["yarn"], indirect=True)
def test_yarn_gets_the_functions_and_python(
    spark: Any, settings: dict[str, str], tmp_path: Path
) -> None:
    given = submitted(spark, settings, HADOOP_CONF_DIR=str(tmp_path))
    assert given["spark.submit.deployMode"] == "client"
    # YARN brings them to its containers.
    assert given["spark.yarn.dist.pyFiles"] == functions_archive().as_uri()
    archive, _, name = given["spark.yarn.dist.archives"].partition("#")
    assert archive.startswith("hdfs:") and settings["spark.pyspark.python"].startswith(f"./{name}/")


@pytest.mark.parametrize("settings", ["kubernetes"], indirect=True)
def test_executors_on_kubernetes_are_pods_as_its_schemas_have_them(
    spark: Any, settings: dict[str, str]
) -> None:
    given = submitted(spark, settings)
    assert given["spark.submit.deployMode"] == "client"
    # The driver hands them out.
    assert given["spark.files"] == functions_archive().as_uri()
    pod = executor(spark, {**given, **settings})
    validate(pod)
    (container,) = pod["spec"]["containers"]
    (cron,) = manifests("CronJob")
    job = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (driver,) = job["containers"]
    assert container["image"] == driver["image"]
    assert container["resources"]["limits"] == {"memory": "12288Mi"}
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert environment["SPARK_DRIVER_URL"].startswith("spark://CoarseGrainedScheduler@pod-ip:")
    secrets = {
        each["valueFrom"]["secretKeyRef"]["name"]
        for each in container["env"]
        if "secretKeyRef" in each.get("valueFrom", {})
    }
    assert secrets == {each["secretRef"]["name"] for each in driver["envFrom"]}
    # What the target reads, and where it is.
    (target,) = (text for text, name in TARGETS if name == "kubernetes")
    assert {each["name"] for each in driver["env"]} == {
        name for name in re.findall(r"env_var\('(\w+)'", target) if name.startswith("POD_")
    }
    assert driver["command"][-2:] == ["--target", "kubernetes"]
    assert cron["metadata"]["namespace"] == settings["spark.kubernetes.namespace"]
    (account,) = manifests("ServiceAccount")
    assert job["serviceAccountName"] == account["metadata"]["name"]


def test_the_manifests_are_as_the_schemas_of_kubernetes_have_them() -> None:
    for each in yaml.safe_load_all(MANIFESTS):
        validate(each)
    (job,) = manifests("CronJob")
    # And nothing passes.
    job["spec"]["jobTemplate"]["spec"]["restartPolicy"] = "Never"
    with pytest.raises(kubernetes_validate.ValidationError, match="restartPolicy"):
        validate(job)


def test_each_setting_is_one_of_sparks(spark: Any) -> None:
    find = spark.org.apache.spark.internal.config.ConfigEntry.findEntry
    # A name in the text, or a key of a target; a point may end a sentence.
    names = {each.rstrip(".") for each in re.findall(r"(?<![\w/.])spark\.[\w.]+\w", PAGE)}
    names -= {"spark.master", "spark.sql.catalog.lake.warehouse"}
    assert len(names) > 20
    unknown = {each for each in names if find(each) is None and not each.startswith(FAMILIES)}
    assert unknown == set()
    assert find("spark.kubernetes.no.such.setting") is None


def manifests(kind: str) -> list[Any]:
    """The manifests of a kind."""
    return [each for each in yaml.safe_load_all(MANIFESTS) if each["kind"] == kind]


def validate(manifest: dict[str, Any]) -> None:
    """Raise what Kubernetes would say of it."""
    for version in KUBERNETES:
        kubernetes_validate.validate(manifest, version, strict=True)


def executor(spark: Any, settings: dict[str, str]) -> dict[str, Any]:
    """The pod that Spark asks Kubernetes for."""
    apache = spark.org.apache.spark
    conf = apache.SparkConf(False)
    for name, value in settings.items():
        conf.set(name, value)
    nothing = _object(spark, "scala.None")
    of_executor = _object(spark, "org.apache.spark.deploy.k8s.KubernetesConf").createExecutorConf(
        conf, "1", "app", nothing, 0
    )
    secret_file = apache.internal.config.ConfigEntry.findEntry("spark.authenticate.secret.file")
    profiles = _object(spark, "org.apache.spark.resource.ResourceProfile")
    made = apache.scheduler.cluster.k8s.KubernetesExecutorBuilder().buildFromFeatures(
        of_executor,
        apache.SecurityManager(conf, nothing, secret_file),
        spark.io.fabric8.kubernetes.client.KubernetesClientBuilder().build(),
        profiles.getOrCreateDefaultProfile(conf),
    )
    as_yaml = spark.io.fabric8.kubernetes.client.utils.Serialization.asYaml
    pod: dict[str, Any] = yaml.safe_load(as_yaml(made.pod().pod()))
    pod["spec"]["containers"] = [yaml.safe_load(as_yaml(made.pod().container()))]
    return pod
