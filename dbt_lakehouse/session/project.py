"""Find the dbt project and its profile, for commands that dbt itself does not run."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from dbt_lakehouse.errors import ConfigurationError, ReadError
from dbt_lakehouse.extras import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dbt_lakehouse.config.kafka import KafkaSource
    from dbt_lakehouse.lake.reader import Reader

_Answer = TypeVar("_Answer")
_NO_TOPICS: Final = (
    "the profile names a Kafka broker, but vars.topics in dbt_project.yml names no topic to land"
    " from it"
)
_NO_BROKER: Final = (
    "no Kafka broker is configured: set kafka.bootstrap.servers in the profile; the one that comes"
    " with cdc_lakehouse takes it from the environment variable KAFKA_BOOTSTRAP_SERVERS. Without a"
    " broker, `lakehouse land` and `lakehouse add --captures` take files of captured messages"
)


class ProjectOptions(NamedTuple):
    """The choice of a project by dbt's own options; None means dbt's default."""

    project_dir: str | None = None
    profiles_dir: str | None = None
    profile: str | None = None
    target: str | None = None
    vars: str | None = None

    def arguments(self) -> list[str]:
        """The options on a command line of dbt or ours."""
        given = [(name, value) for name, value in self._asdict().items() if value is not None]
        return [text for name, value in given for text in (f"--{name.replace('_', '-')}", value)]


class Project(NamedTuple):
    """The parts of a dbt project that landing and showing need."""

    parameters: Mapping[str, str]
    variables: Mapping[str, Any]
    schema: str
    """The target's."""
    root: Path
    """The folder of dbt_project.yml; relative paths of profile and vars are relative to it."""
    options: ProjectOptions = ProjectOptions()
    """The options by which other commands find the same project."""
    folders: tuple[Path, ...] = ()
    """Its folders of models, macros and other files that dbt reads."""
    name: str = ""
    """dbt's name of the project."""

    @property
    def gold(self) -> str:
        """The schema of gold's tables."""
        return layer_of("gold", self.schema)

    @property
    def silver(self) -> str:
        """The schema of silver's tables."""
        return layer_of("silver", self.schema)

    @property
    def settings(self) -> dict[str, str]:
        """The parameters with absolute paths. Raises ``ConfigurationError``."""
        from dbt_lakehouse.lake.catalog import absolute

        return absolute(self.parameters, self.root)

    def reader(self, *, sparing: bool = False) -> "Reader":
        """A reader of the lake without Spark. Raises ``ConfigurationError`` and ``ReadError``."""
        from dbt_lakehouse.lake.reader import Reader

        return Reader(self.settings, self.gold, sparing=sparing, root=self.root)

    def looked(self, ask: Callable[["Reader"], _Answer]) -> _Answer | None:
        """The result of ``ask``, run before Spark starts, which takes longer than to find a
        mistake; None if only Spark can read the lake. Raises ``ConfigurationError``, also if
        there is no lake yet, and the errors of ``ask``.
        """
        from dbt_lakehouse.lake import buckets, catalog

        settings = self.settings
        if not catalog.is_read_without_spark(settings):
            return None
        # Spark reports what can't be read, or reads it.
        with suppress(ReadError):
            found = catalog.entries(settings)
            if all(buckets.is_read_without_spark(each.metadata) for each in found):
                return ask(self.reader())
        return None

    def refuse_readers(self) -> None:
        """Raise ``WriteError`` if this user can't write the lake, as far as that can be told
        without Spark.
        """
        from dbt_lakehouse.lake.catalog import refuse_readers

        refuse_readers(self.settings)

    def require_lake(self) -> None:
        """Raise ``ConfigurationError`` if there is no lake yet, which Spark would create, as far
        as that can be told without Spark.
        """
        from dbt_lakehouse.lake.catalog import entries, is_read_without_spark

        with suppress(ReadError):
            if is_read_without_spark(self.settings):
                entries(self.settings)

    def open_session(self) -> "SparkSession":
        """The session of the project's profile, opened as ``dbt run`` opens it."""
        from dbt_lakehouse.session.opening import open_session

        return open_session(self.parameters, self.root)

    def refuse_landing_elsewhere(self) -> None:
        """Raise ``ConfigurationError`` if the target does not land, and the errors of
        ``refuse_readers``.
        """
        elsewhere = lands_elsewhere(self.schema, self.options)
        if elsewhere is not None:
            raise ConfigurationError(elsewhere)
        self.refuse_readers()

    def kafka(self, more: Sequence[str] = ()) -> "KafkaSource | None":
        """Kafka as the project configures it; None without a broker, or without a topic to bring
        from Kafka. No broker is contacted. ``more`` are topics that vars.topics need not list.

        Raises ``ConfigurationError``.
        """
        source = self._broker(more)
        if source is None or any(rule.from_kafka for rule in source.rules):
            return source
        if self.variables.get("topics") is None:
            raise ConfigurationError(_NO_TOPICS)
        return None

    def _broker(self, more: Sequence[str] = ()) -> "KafkaSource | None":
        """``kafka``, whether a topic comes from it or not; None without a broker."""
        from dbt_lakehouse.config.kafka import KafkaSource, kafka_settings
        from dbt_lakehouse.config.topics import TopicRule, topic_rules

        rules = topic_rules(self.variables.get("topics"))
        settings = kafka_settings(self.parameters)
        names = {name for rule in rules for name in (rule.topic, rule.land_as)}
        rules += [
            TopicRule(topic, None, "", from_kafka=True, land_as=None)
            for topic in more
            if topic not in names
        ]
        if settings is None:
            return None
        return KafkaSource(
            settings=settings,
            rules=rules,
            max_messages=self.variables.get("max_messages_per_run", 10_000_000),
            patience=lock_patience(self.variables),
        )

    def reachable_kafka(self, more: Sequence[str] = ()) -> "KafkaSource | None":
        """``kafka`` with a check of its brokers. Raises ``KafkaError`` too if no broker can be
        reached, which is cheaper to find before Spark starts.
        """
        from dbt_lakehouse.config.kafka_probe import probe

        source = self.kafka(more)
        if source is not None:
            probe(source.settings)
        return source

    def require_kafka(self, more: Sequence[str] = ()) -> "KafkaSource":
        """``reachable_kafka`` for commands that land from Kafka."""
        source = self.reachable_kafka(more)
        if source is None and self._broker() is not None:
            raise ConfigurationError(_NO_TOPICS)
        if source is None:
            raise ConfigurationError(_NO_BROKER)
        return source

    def require_broker(self) -> "KafkaSource":
        """Kafka for commands that look at any of its topics, whatever vars.topics lists. Raises
        the errors of ``reachable_kafka``.
        """
        from dbt_lakehouse.config.kafka_probe import probe

        source = self._broker()
        if source is None:
            raise ConfigurationError(_NO_BROKER)
        probe(source.settings)
        return source


def load(options: ProjectOptions) -> Project:
    """The project, profile and target that dbt would take: by its own options, then by its
    environment variables (``DBT_PROJECT_DIR``, ``DBT_PROFILES_DIR``, ``DBT_PROFILE``,
    ``DBT_TARGET``), then the current folder or the nearest dbt project above it, with the
    profiles.yml of the current folder or of ``~/.dbt``.

    Raises ``ConfigurationError`` if it can't be read or its profile is not of ``type:
    lakehouse``.
    """
    # Commands that read without dbt come here with a profile that is not plain.
    require("lake")
    from dbt_lakehouse.config.mistakes import diagnosis, find_folders

    folders = find_folders(options.project_dir, options.profiles_dir)
    # They take two seconds to import, by which time more than one command has ended
    # (dbt_lakehouse.session.profile).
    from click import ClickException
    from dbt.cli.flags import Flags
    from dbt.cli.types import Command as CliCommand
    from dbt.config.runtime import load_profile, load_project
    from dbt.exceptions import DbtProjectError
    from dbt.flags import set_flags
    from dbt_common.context import set_invocation_context
    from dbt_common.exceptions import DbtBaseException

    from dbt_lakehouse.config.variables import refuse_unreadable, variables_of

    refuse_unreadable(options.vars)
    # dbt's function has no annotations.
    use_flags: Final[Any] = set_flags
    # The environment that the profile's env_var reads; set again, for it is a copy.
    set_invocation_context(os.environ)
    given = {name: value for name, value in options._asdict().items() if value is not None}
    try:
        # A separator for dbt's own parser of command lines.
        flags: Any = Flags.from_dict(CliCommand.COMPILE, given)
        use_flags(flags)
        profile = load_profile(flags.PROJECT_DIR, flags.VARS, flags.PROFILE, flags.TARGET)
        project = load_project(flags.PROJECT_DIR, False, profile, flags.VARS)
    except ClickException as error:
        raise ConfigurationError(error.format_message()) from error
    except (DbtProjectError, DbtBaseException) as error:
        raise ConfigurationError(diagnosis(error, folders)) from error
    credentials = profile.credentials
    if credentials.type != "lakehouse":
        raise ConfigurationError(
            f"target {profile.target_name} of the profile {profile.profile_name} has"
            f" `type: {credentials.type}`, and not `type: lakehouse`"
        )
    parameters: Any = credentials
    found = ProjectOptions(
        project_dir=str(flags.PROJECT_DIR),
        profiles_dir=str(flags.PROFILES_DIR),
        profile=profile.profile_name,
        target=profile.target_name,
        vars=options.vars,
    )
    return Project(
        parameters.server_side_parameters,
        variables_of(project, flags.VARS),
        credentials.schema or "gold",
        root := Path(flags.PROJECT_DIR).resolve(),
        found,
        tuple(root / each for each in project.all_source_paths),
        str(project.project_name),
    )


def lands_elsewhere(schema: str, options: ProjectOptions) -> str | None:
    """The reason why a target with this schema lands nothing, None for the target that bronze
    belongs to: all targets share bronze, and each checkout has its own vars. Profile and target
    are those that were found.
    """
    if schema == "gold":
        return None
    from dbt.config.profile import read_profile

    profiles = read_profile(str(options.profiles_dir))
    profile = profiles.get(str(options.profile), {})
    outputs = profile.get("outputs", {})
    owners = [name for name, output in outputs.items() if output.get("schema") == "gold"]
    owners.sort(key=lambda name: name != profile.get("target"))
    return (
        f"nothing lands with target {options.target}: bronze is shared, and landing is for the"
        f" target whose schema is gold{f' ({owners[0]})' if owners else ''}"
    )


def target_folder(root: Path) -> Path:
    """The folder into which dbt writes a project's artifacts."""
    return _folder(root, "TARGET", "target")


def log_folder(root: Path) -> Path:
    """The folder into which dbt writes its log."""
    return _folder(root, "LOG", "logs")


def _folder(root: Path, name: str, default: str) -> Path:
    given = os.environ.get(f"DBT_ENGINE_{name}_PATH") or os.environ.get(f"DBT_{name}_PATH")
    return root / (given or default)


def layer_of(name: str, schema: str) -> str:
    """The schema of silver's or gold's tables in the target with this schema
    (macros/adapter/generate_schema_name.sql).
    """
    return name if schema == "gold" else f"{schema}_{name}"


def lock_patience(variables: Mapping[str, Any]) -> float:
    """The number of seconds to wait for another process that is working on the lake."""
    return float(variables.get("lock_timeout_seconds", 600))
