"""Connections to the lake: each thread of dbt has a Spark session of its own."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from dbt.adapters.contracts.connection import AdapterRequiredConfig, Connection, ConnectionState
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.events.types import SQLQuery
from dbt.adapters.spark.connections import (
    SparkConnectionManager,
    SparkConnectionMethod,
    SparkCredentials,
)
from dbt.adapters.spark.session import Cursor, SessionConnectionWrapper
from dbt.config.runtime import RuntimeConfig
from dbt_common.events.contextvars import get_node_info
from dbt_common.events.functions import fire_event
from dbt_common.exceptions import DbtRuntimeError
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import Row

from dbt.adapters.lakehouse.connections.terminal import RunningNodes, heed_no_color, hide_secrets
from dbt_lakehouse.build.context import COMMANDS_THAT_ONLY_COMPILE
from dbt_lakehouse.config.topics import has_doubtful_patterns
from dbt_lakehouse.config.variables import require_topics, variables_of
from dbt_lakehouse.errors import ConfigurationError, LakehouseError
from dbt_lakehouse.extras import missing
from dbt_lakehouse.lake.at_rest import TablesAtRest, tables_at_rest
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs.late_inserts import LateInserts
from dbt_lakehouse.runs.moments import moment_of
from dbt_lakehouse.session.pool import LakeSession, Sessions
from dbt_lakehouse.session.troubles import log_text, statement_error_text
from dbt_lakehouse.spark.jvm import packages, query_execution
from dbt_lakehouse.spark.rows import collected
from dbt_lakehouse.telling import telling
from dbt_lakehouse.texts import sql_text

if TYPE_CHECKING:
    from dbt_lakehouse.lake.locks import LakeLock
    from dbt_lakehouse.report.runs import Node, Rows, Run
    from dbt_lakehouse.session.project import Project

# The commands that begin by landing new messages.
COMMANDS_THAT_LAND: Final = frozenset({"build", "run"})
# The commands that write tables from what they read of others; a run-operation's macro may do so.
COMMANDS_THAT_BUILD: Final = COMMANDS_THAT_LAND | {"retry", "run-operation"}
# The commands for which Spark starts in any case, if the project is well.
COMMANDS_WITH_SPARK: Final = COMMANDS_THAT_LAND | {"retry", "seed", "show", "snapshot", "test"}
# The commands that warn of what is certain to go wrong in them, such as contracts that do not fit.
COMMANDS_WITH_WARNINGS: Final = COMMANDS_THAT_LAND | {"compile", "retry"}
# The commands that leave a report.
COMMANDS_TO_REPORT: Final = COMMANDS_THAT_LAND | {"retry", "test"}

LOGGER: Final = AdapterLogger("Lakehouse")


@contextmanager
def explained(sql: str) -> Generator[None, None, None]:
    """Translate errors of Spark, and ours, into dbt's with one sentence."""
    try:
        yield
    except LakehouseError as error:
        raise DbtRuntimeError(f"cdc_lakehouse\n{error}") from None
    # A statement after Spark's process has ended meets a refused connection.
    except (CapturedException, Py4JJavaError, Py4JNetworkError, ConnectionRefusedError) as error:
        # dbt logs an error's cause, which may contain secrets.
        raise DbtRuntimeError(_told_of(sql, error)) from None


def _told_of(sql: str, error: Exception) -> str:
    try:
        LOGGER.debug(f"Error while running:\n{sql}\n{log_text(error)}")
        return statement_error_text(error, sql)
    except (Py4JNetworkError, ConnectionRefusedError) as ended:
        # Spark's process has ended, so its error can't be queried.
        return statement_error_text(ended)


def _refuse_clone(command: str) -> None:
    """Raise ``ConfigurationError`` for `dbt clone`: dbt-spark's implementation creates the
    schemas, and then requires Delta tables, for each model.
    """
    if command == "clone":
        raise ConfigurationError(
            "dbt clone is not supported: Iceberg has no shallow clone. To build some models upon"
            " another target's tables, use --defer --state DIR; for a copy of the whole lake,"
            " lakehouse backup FOLDER"
        )


@dataclass
class LakehouseCredentials(SparkCredentials):
    """A target of ``type: lakehouse``: the place of the lake and Spark's settings, all of it in
    ``server_side_parameters``.
    """

    method: SparkConnectionMethod = SparkConnectionMethod.SESSION
    # dbt-spark requires a host; a session has none.
    host: str | None = "localhost"

    def __post_init__(self) -> None:
        if self.method != SparkConnectionMethod.SESSION:
            raise DbtRuntimeError(
                f"`type: lakehouse` has `method: session`, and no {self.method}: the lake's Spark"
                " runs in dbt's own process"
            )
        super().__post_init__()
        # The first method that dbt calls on an adapter, before it prints more than its version.
        heed_no_color()
        hide_secrets()

    @property
    def type(self) -> str:
        return "lakehouse"

    def _connection_keys(self) -> tuple[str, ...]:
        return ("method", "schema")


class LakehouseCursor(Cursor):
    """A cursor of dbt-spark's whose statements run in the connection's session, with the
    arguments that are held for them.
    """

    def __init__(self, handle: "LakehouseHandle") -> None:
        super().__init__()
        self._handle: Final = handle

    def execute(self, sql: str, *parameters: Any) -> None:
        if parameters:
            sql = sql % parameters
        is_query = False
        try:
            self._df = self._handle.session.sql(sql)
            execution = query_execution(self._df)
            # A command has already run: this is its result.
            is_query = execution.commandExecuted().getClass().getSimpleName() != "CommandResult"
        finally:
            if not is_query:
                self._handle.looks.clear()

    def fetchall(self) -> list[Row] | None:
        # dbt only handles errors of execute, and a query runs when its rows are fetched.
        with explained("fetching rows"):
            if self._rows is None and self._df is not None:
                self._rows = collected(self._df)
            return self._rows

    def fetchone(self) -> Row | None:
        with explained("fetching a row"):
            if self._rows is None and self._df is not None:
                self._rows = collected(self._df.limit(1))
            return super().fetchone()


class LakehouseHandle(SessionConnectionWrapper):
    """The state of a connection: its session, which is opened on first use, and the tables that
    it has looked at.
    """

    def __init__(self, open_session: Callable[[], tuple[LakeSession, Sessions]]) -> None:
        super().__init__(cast(Any, self))
        # By relation; cleared after each statement that may have written.
        self.looks: Final[dict[str, Table | None]] = {}
        self._open_session: Final = open_session
        self._opened: tuple[LakeSession, Sessions] | None = None

    @property
    def session(self) -> LakeSession:
        """The session of the connection's thread. Raises the errors of opening the lake."""
        if self._opened is None:
            self._opened = self._open_session()
        return self._opened[0]

    @classmethod
    def _fix_binding(cls, value: Any) -> str:
        """A seed's value as SQL, which dbt-spark casts to its column's type: as text, because
        dbt-spark's own would round whole numbers to doubles and make a text of None.
        """
        if value is None:
            return "null"
        return sql_text(f"{value:f}" if isinstance(value, Decimal) else str(value))

    def cursor(self) -> "LakehouseHandle":
        self._cursor = LakehouseCursor(self)
        return self

    def cancel(self) -> None:
        """Cancel the running and future Spark jobs of this connection: on Ctrl-C, dbt calls it
        for each connection.
        """
        if self._opened is not None:
            self._opened[0].cancel()

    def close(self) -> None:
        super().close()
        if self._opened is not None:
            session, sessions = self._opened
            sessions.give_back(session)


def ending_text(error: BaseException) -> str:
    """The error that ended a command; dbt's exit of a failed command has no text of its own."""
    from dbt.cli.exceptions import ResultExit

    from dbt_lakehouse.report.runs import INTERRUPTED

    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    # Its own text is an error: click's message, which it lacks.
    if isinstance(error, ResultExit):
        return "failed"
    ended_by = getattr(error, "exception", None) or error
    return str(ended_by) or type(ended_by).__name__


class LakehouseConnectionManager(SparkConnectionManager):
    """Opens the lake once for a dbt command, and holds the run's lock while the command builds."""

    TYPE = "lakehouse"

    def __init__(self, profile: AdapterRequiredConfig, mp_context: SpawnContext) -> None:
        super().__init__(profile, mp_context)
        self.late_inserts: Final = LateInserts()
        # See ``Declared.foreseen``; asked once.
        self.foreseen: Callable[[], list[str]] | None = None
        # `dbt debug` passes only a profile; tools that load a project need not name a command.
        self.command = "debug"
        self._variables: dict[str, Any] = {}
        self._root = Path.cwd()
        if isinstance(profile, RuntimeConfig):
            self.command = getattr(profile.args, "which", self.command)
            self._root = Path(profile.project_root)
            # Checked before dbt parses the project.
            with self.exception_handler("reading vars"), telling(LOGGER.warning):
                self._variables = variables_of(profile, profile.cli_vars)
                require_topics(self._variables)
        self._sessions: Sessions | None = None
        self._run_lock: LakeLock | None = None
        # When the lake was opened and the lock taken.
        self._began: datetime | None = None
        self._moment: str | None = None
        self._run: Run | None = None
        self._has_reported = False
        self._running: RunningNodes | None = None
        if isinstance(profile, RuntimeConfig) and hasattr(profile.args, "which"):
            self._running = RunningNodes(profile.args, self._how_far)
        if self.command in COMMANDS_WITH_SPARK:
            self._begin_to_start_spark()

    def _begin_to_start_spark(self) -> None:
        """Start Spark's JVM while dbt parses the project; if that fails, it is ended."""
        # Imported here: other commands should not pay for it.
        from dbt_lakehouse.session.opening import begin_to_start

        # Opening the lake reports it.
        with suppress(LakehouseError):
            begin_to_start(self.project().parameters, self._root)

    def _how_far(self) -> str:
        """The progress of Spark, see ``spark.progress.tasks_of``."""
        if self._sessions is None:
            return ""
        from dbt_lakehouse.spark.progress import tasks_of

        return tasks_of(self._sessions.base)()

    def project(self) -> "Project":
        """The lake's project, from profile and vars."""
        # Imported here: commands without SQL should not pay for it.
        from dbt_lakehouse.session.project import Project

        credentials = cast(LakehouseCredentials, self.profile.credentials)
        return Project(
            credentials.server_side_parameters,
            self._variables,
            credentials.schema or "gold",
            self._root,
        )

    def lands_elsewhere(self) -> str | None:
        """See ``session.project.lands_elsewhere``."""
        from dbt_lakehouse.session.project import ProjectOptions, lands_elsewhere

        config = cast(RuntimeConfig, self.profile)
        return lands_elsewhere(
            config.credentials.schema or "gold",
            ProjectOptions(
                profiles_dir=config.args.PROFILES_DIR,
                profile=config.profile_name,
                target=config.target_name,
            ),
        )

    # dbt declares a class method, and only calls it on this object.
    def open(self, connection: Connection) -> Connection:  # type: ignore[override]
        if connection.state == ConnectionState.OPEN:
            return connection
        connection.handle = LakehouseHandle(self._session)
        self.warn_of_foreseen()
        if not self.only_compiles:
            # The run's lock is taken before anything is read.
            _ = connection.handle.session
        connection.state = ConnectionState.OPEN
        return connection

    def warn_of_foreseen(self) -> None:
        """Warn once of what is certain to go wrong, before Spark starts."""
        with self.lock:
            ask, self.foreseen = self.foreseen, None
        if ask is not None and self.command in COMMANDS_WITH_WARNINGS:
            for sentence in ask():
                LOGGER.warning(sentence)

    def _session(self) -> tuple[LakeSession, Sessions]:
        """A session for a connection, and the lake's sessions, to which it is returned."""
        with self.exception_handler("opening the lake"), telling(LOGGER.info):
            sessions = self._opened()
            session = sessions.take()
        if self.command != "run" and not session.has_references:
            # For data tests, which `dbt run` does not run.
            from dbt_lakehouse.spark.functions import register_references

            register_references(session.spark)
            session.has_references = True
        return session, sessions

    @property
    def only_compiles(self) -> bool:
        """Whether the command compiles SQL without running any."""
        return self.command in COMMANDS_THAT_ONLY_COMPILE

    @cached_property
    def at_rest(self) -> TablesAtRest | None:
        """The lake's tables without Spark, for a command that runs no SQL; None for other
        commands, and if only Spark can read them.
        """
        if not self.only_compiles:
            return None
        with self.exception_handler("reading the lake's catalog"):
            if has_doubtful_patterns(self._variables.get("topics")):
                return None
            return tables_at_rest(self.project().settings)

    def _opened(self) -> Sessions:
        """The lake's sessions. For a command that builds, the run's lock is taken first, before
        anything is read.
        """
        with self.lock:
            if self._sessions is None:
                self._sessions = self._open_lake()
            return self._sessions

    def _open_lake(self) -> Sessions:
        from dbt_lakehouse.config.topics import TopicMatcher, topic_rules
        from dbt_lakehouse.lake.locks import run_lock
        from dbt_lakehouse.landing.files import configured_captures
        from dbt_lakehouse.session.opening import opened_sessions
        from dbt_lakehouse.session.project import lock_patience

        # Not earlier: dbt would print a traceback then.
        _refuse_clone(self.command)
        project = self.project()
        if self.command in COMMANDS_THAT_LAND and self.lands_elsewhere() is None:
            # Before Spark starts and creates the lake's folder: a missing file or broker is
            # reported at once.
            configured_captures(project.variables, project.root)
            project.reachable_kafka()
        spark = project.open_session()
        # Patterns are in Java's syntax: Spark reports invalid ones.
        TopicMatcher(packages(spark), topic_rules(project.variables.get("topics")))
        if self.command in COMMANDS_THAT_BUILD and self._run_lock is None:
            lock = run_lock(spark)
            lock.wait(f"dbt {self.command}", lock_patience(project.variables))
            self._run_lock = lock
        self._began = datetime.now(UTC)
        return opened_sessions()

    def moment(self, built: Callable[[], Mapping[str, str | None]]) -> str:
        """The moment of this command, the same for all of its nodes, see ``moments.moment_of``.
        Commands that build nothing take the clock's.
        """
        with self.lock:
            if self._moment is None:
                # First: to look at the tables opens the lake.
                tables = built() if self.command in COMMANDS_THAT_BUILD else {}
                found = moment_of(self._began or datetime.now(UTC), tables)
                if found.warning:
                    LOGGER.warning(found.warning)
                self._moment = found.text
            return self._moment

    def end_command(self) -> None:
        """Insert the late rows of the models, and release the lock."""
        from dbt_lakehouse.session.opening import has_ended

        sessions, self._sessions = self._sessions, None
        lock, self._run_lock = self._run_lock, None
        if self._running is not None:
            self._running.clear()
        statements = self.late_inserts.take()
        try:
            # If Spark was killed too, no counters are awaited.
            if sessions is not None and statements and not has_ended(patience=0):
                for statement in statements:
                    sessions.base.sql(statement)
        finally:
            if lock is not None:
                lock.release()

    def keep_results(
        self,
        results: Sequence[Any],
        landed: Sequence[str],
        troubles: Sequence[str],
        rows_of: "Callable[[str], Rows | None]",
    ) -> None:
        """Store the data for this command's report, if it leaves one. dbt's ``--no-write-json``
        applies: the report is an artifact like those of dbt.
        """
        with self._reporting():
            if self._leaves_report():
                from dbt_lakehouse.report.runs import nodes_of

                nodes = nodes_of(results, cast(RuntimeConfig, self.profile).project_name, rows_of)
                self._run = self._run_so_far(nodes, landed, troubles)

    def leave_report(self, error: BaseException | None) -> None:
        """Write the report of a command that has ended, including one that an error ended before
        its models were done. dbt may report the end more than once.
        """
        if self._has_reported:
            return
        with self._reporting():
            run = self._run
            if run is None and error is not None and self._leaves_report():
                run = self._run_so_far([], [], [], ending_text(error))
            if run is None:
                return
            self._has_reported = True
            if told := missing("report"):
                LOGGER.info(f"no report of this run: {told}")
                return
            from dbt_lakehouse.commands.report import leave

            config = cast(RuntimeConfig, self.profile)
            path = leave(run, self.project(), Path(config.project_target_path))
            LOGGER.info(f"report of this run: {path}")

    def _leaves_report(self) -> bool:
        config = cast(RuntimeConfig, self.profile)
        return self.command in COMMANDS_TO_REPORT and bool(config.args.write_json)

    def _run_so_far(
        self,
        nodes: "list[Node]",
        landed: Sequence[str],
        troubles: Sequence[str],
        error: str | None = None,
    ) -> "Run":
        from dbt_common.invocation import get_invocation_id, get_invocation_started_at

        from dbt_lakehouse.report.runs import Run, moment

        return Run(
            invocation_id=get_invocation_id(),
            command=self.command,
            target=cast(RuntimeConfig, self.profile).target_name,
            gold=self.project().gold,
            started_at=moment(get_invocation_started_at()),
            ended_at=datetime.now(UTC),
            nodes=nodes,
            landed=list(landed),
            troubles=list(troubles),
            error=error,
            # An exception class of dbt's own.
            project=str(cast(RuntimeConfig, self.profile).project_name),
        )

    @contextmanager
    def _reporting(self) -> Generator[None, None, None]:
        """Turn any error into a warning, even a bug of ours: a run that has done its work must
        not fail for its report.
        """
        try:
            yield
        except Exception as error:
            text = " ".join(str(error).split()) or type(error).__name__
            LOGGER.warning(f"no report of this run: {text}; `lakehouse report` tries again")

    def log_statement(self, sql: str) -> None:
        """Write a statement to dbt's log in dbt's own form."""
        name = self.get_thread_connection().name or ""
        fire_event(SQLQuery(conn_name=name, sql=sql, node_info=get_node_info()))

    def tell(self, message: str) -> None:
        """Tell the user."""
        LOGGER.info(message)

    @contextmanager
    def exception_handler(self, sql: str) -> Generator[None, None, None]:
        with explained(sql):
            yield
