"""Finds the dbt project and its profile for the commands that dbt itself does not run."""

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from dbt.config.project import Project as DbtProject
from dbt.config.runtime import load_profile, load_project
from dbt.config.utils import parse_cli_yaml_string
from dbt.exceptions import DbtProjectError
from dbt.flags import set_from_args
from dbt_common.context import set_invocation_context
from dbt_common.exceptions import DbtBaseException
from pyspark.sql import SparkSession

from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.config.topics import topic_rules
from dbt_lakehouse.config.variables import checked
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.landing.kafka.admin import probe
from dbt_lakehouse.landing.kafka.settings import KafkaSource, kafka_settings
from dbt_lakehouse.spark.session import open_session

_PROJECT_FILE: Final = "dbt_project.yml"


class ProjectOptions(NamedTuple):
    """Which project, as dbt's own options name it; what is None is dbt's default."""

    project_dir: str | None = None
    profiles_dir: str | None = None
    target: str | None = None
    vars: str | None = None


class Project(NamedTuple):
    """A dbt project as far as landing and showing need it."""

    parameters: Mapping[str, str]
    variables: Mapping[str, Any]
    schema: str = "gold"
    """The target's."""
    root: Path = ROOT
    """The folder of dbt_project.yml."""
    options: ProjectOptions = ProjectOptions()
    """What led to it, for other commands on the same project."""

    @property
    def gold(self) -> str:
        """The schema of gold's tables (macros/adapter/generate_schema_name.sql)."""
        return self.schema if self.schema == "gold" else f"{self.schema}_gold"

    def open_session(self) -> SparkSession:
        """The session of the project's profile, as ``dbt run`` opens it."""
        return open_session(self.parameters)

    def kafka(self) -> KafkaSource | None:
        """Kafka as the project configures it, None if it names no broker.

        Raises ``ConfigurationError``, and ``KafkaError`` if no broker can be reached: that is
        cheaper to find out before Spark starts.
        """
        rules = topic_rules(self.variables.get("topics"))
        settings = kafka_settings(self.parameters)
        if settings is None:
            return None
        if not any(rule.from_kafka for rule in rules):
            raise ConfigurationError(
                "the profile names a Kafka broker, but vars.topics in dbt_project.yml no topic to"
                " land from it"
            )
        probe(settings)
        return KafkaSource(
            settings=settings,
            rules=rules,
            max_messages=self.variables.get("max_messages_per_run", 10_000_000),
            patience=lock_patience(self.variables),
        )

    def require_kafka(self) -> KafkaSource:
        """As ``kafka``, for commands that are about it."""
        source = self.kafka()
        if source is None:
            raise ConfigurationError(
                "no Kafka broker is configured: set kafka.bootstrap.servers in the profile, or the"
                " environment variable KAFKA_BOOTSTRAP_SERVERS that the project's own reads"
            )
        return source


def load(options: ProjectOptions) -> Project:
    """The project of the given folder, else of the current one if it is a dbt project, else of the
    checkout.

    Raises ``ConfigurationError`` if it can't be read or its profile's method is not ``session``.
    """
    root = Path(options.project_dir) if options.project_dir else Path.cwd()
    if not options.project_dir and not (root / _PROJECT_FILE).exists():
        root = ROOT
    profiles = options.profiles_dir or str(root / "profiles")
    # The environment that the profile's env_var reads; set anew, for it is a copy.
    set_invocation_context(os.environ)
    set_from_args(Namespace(PROJECT_DIR=str(root), PROFILES_DIR=profiles), None)
    try:
        given = parse_cli_yaml_string(options.vars or "{}", "vars")
        profile = load_profile(str(root), given, target_override=options.target)
        project = load_project(str(root), False, profile, given)
    except (DbtProjectError, DbtBaseException) as error:
        raise ConfigurationError(str(error)) from error
    credentials = profile.credentials
    if credentials.type != "lakehouse":
        raise ConfigurationError(
            f"target {profile.target_name} of the profile {profile.profile_name} has"
            f" `type: {credentials.type}`, and not `type: lakehouse`"
        )
    parameters: Any = credentials
    return Project(
        parameters.server_side_parameters,
        variables_of(project, given),
        credentials.schema or "gold",
        root,
        options,
    )


def variables_of(project: DbtProject, given: Mapping[str, Any]) -> dict[str, Any]:
    """The project's vars, those of its own scope and of ``--vars`` on top.

    Raises ``ConfigurationError`` for a value that can't be meant.
    """
    # Through Any: dbt's method has no annotations.
    scopes: Any = project.vars
    declared: dict[str, Any] = scopes.to_dict()
    return checked({**declared, **declared.get(project.project_name, {}), **given})


def lock_patience(variables: Mapping[str, Any]) -> float:
    """How many seconds to wait for another process at work on the lake."""
    return float(variables.get("lock_timeout_seconds", 600))
