"""Settings of all Python tests, and the broker that they share."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

from dbt_lakehouse import redaction
from local_kafka.broker import Broker

if TYPE_CHECKING:
    from support.kafka_topics import Kafka
    from support.lakes import Lake

# Files whose tests share a lake.
SHARING: Final = {
    "demo": (
        *("test_demo_build", "test_mistakes", "test_notebook", "test_pages_in_browser"),
        *("test_lake_copies", "test_query_page", "test_serve", "test_sql", "test_status"),
        "test_page",
    ),
    "kafka": ("test_kafka_batch", "test_kafka_stream", "test_kafka_trouble", "test_cycles"),
    "rows": (
        *("test_beliefs", "test_compacted", "test_deleted_rows", "test_events", "test_history"),
        *("test_key_updates", "test_keyless", "test_partial_rows"),
        *("test_pictures", "test_shards", "test_why"),
    ),
}

# Each process makes such a lake, for minutes, unless all that use it are in one.
_OF_FIXTURES: Final = {"demo": "demo", "built": "rows"}

# What takes minutes: begun last, it would leave a process without work.
_LONGEST: Final = (
    *("kafka", "demo", "rows", "test_forget", "test_maintenance", "test_generate"),
    *("test_history_news", "test_scenarios", "test_composite_keys"),
    *("test_catalogs", "test_upstreams", "test_real_source", "test_package", "test_cluster"),
    *("test_run_crashes", "test_truncates", "test_wrong_rows", "test_other_events"),
    *("test_source_order", "test_schema_drift", "test_schema_registry", "test_redrive"),
)

# Modules of helpers, one of which each test has that opens a lake.
_OF_LAKES: Final = (
    *("lakes", "commands", "row_lake", "built_rows", "small_project"),
    *("tools.benchmarks.measuring", "local_kafka.broker"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of ``make real``."""
    group = parser.getgroup("real sources")
    group.addoption("--seed", type=int, default=113, help="the first seed of random changes")
    group.addoption("--seeds", type=int, default=1, help="how many seeds, one after the other")
    group.addoption("--rounds", type=int, default=2, help="how many builds of each")
    group.addoption(
        "--ordered",
        action="store_true",
        help="order logs by their source's own order, as generate proposes it",
    )
    group.addoption(
        "--killed", action="store_true", help="kill Kafka Connect while it sends, in each round"
    )
    group.addoption(
        "--settings",
        default="default",
        help="settings of the connector, by their names in real_settings.py with commas; or all",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Allow for what others leave to the garbage collector: py4j its sockets, dbt its log files,
    and its threads when a command ends with an error.
    """
    for message in (
        "unclosed <socket.socket",
        "unclosed file <_io.TextIOWrapper name='.*dbt.log'",
        "unclosed running multiprocessing pool",
    ):
        config.addinivalue_line("filterwarnings", f"ignore:{message}:ResourceWarning")


# xdist has no types.
class ByGroups(LoadScopeScheduling):  # type: ignore[misc]
    """Gives the tests of a file to one process, and those of files that share a lake too.

    xdist's own way, ``--dist loadgroup`` and its marks, has no effect with pytest 9.2: xdist 3.8
    sets ``_nodeid`` of a test, which is no longer there.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByGroups:
    """Schedule by groups, whatever --dist says."""
    return ByGroups(config, log)


def _group_of(nodeid: str) -> str:
    file = Path(nodeid.split("::")[0]).stem
    return next((group for group in SHARING if file in SHARING[group]), file)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what opens a lake, and of that with what takes longest: the quick tests are what
    is left for the process that is done first.
    """
    item: Any
    for item in items:
        definitions = item._fixtureinfo.name2fixturedefs
        for name in _OF_FIXTURES.keys() & definitions.keys():
            group = _OF_FIXTURES[name]
            if definitions[name][-1].scope == "session" and _group_of(item.nodeid) != group:
                raise pytest.UsageError(f"{item.nodeid}: its file belongs to SHARING[{group!r}]")
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> tuple[int, str]:
    """Then by the names of files, in whichever folders these are: some leave tables behind."""
    group, file = _group_of(item.nodeid), Path(item.nodeid.split("::")[0]).stem
    if group in _LONGEST:
        return _LONGEST.index(group), file
    return len(_LONGEST) + (not _opens_lake(item)), file


def _opens_lake(item: pytest.Item) -> bool:
    values = vars(getattr(item, "module", None) or object).values()
    return any(getattr(value, "__module__", None) in _OF_LAKES for value in values)


@pytest.fixture(scope="module", autouse=True)
def _forget_secrets() -> Iterator[None]:
    """What is hidden in one module's texts hides nothing in another's."""
    known = {*redaction._known}
    yield
    redaction._known.intersection_update(known)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for all tests that don't change it; each makes topics of its own."""
    # Topics are compacted at once rather than every 15 s.
    settings = {"log.cleaner.backoff.ms": "100"}
    with Broker(tmp_path_factory.mktemp("kafka"), settings=settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def kafka(broker: Broker) -> Iterator["Kafka"]:
    """The topics of that broker, which the profile names as long as the module's tests run."""
    # Imported here: dbt and Spark take seconds, and most tests need neither.
    from support.kafka_topics import Kafka

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
        yield Kafka({"bootstrap.servers": broker.bootstrap_servers})


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> "Lake":
    """A lake with the demo's captures landed by ``dbt build`` itself, and all of it built."""
    from support.lakes import DEMO_AS_OF, Lake

    lake = Lake(tmp_path_factory.mktemp("demo"))
    # With a report of the run.
    command = ("build", "--write-json")
    statuses = lake.dbt(*command, as_of=DEMO_AS_OF, captures=["seeds/*.jsonl"])
    # dbt passes over exposures.
    passed = ("success", "pass", "no-op")
    assert not {name: status for name, status in statuses.items() if status not in passed}
    # Models, data tests and unit tests have run.
    assert len(statuses) > 100
    return lake


@pytest.fixture(scope="session")
def demo_docs(demo: "Lake") -> Path:
    """The page that `lakehouse docs` writes of that lake."""
    from support.lakes import DEMO_AS_OF

    from dbt_lakehouse.commands.docs import write_docs

    with pytest.MonkeyPatch.context() as environment:
        # Where the build was: dbt need not parse the project again.
        target = demo.folder / f"target-{demo.project.name}"
        environment.setenv("DBT_TARGET_PATH", str(target))
        environment.setenv("DBT_LOG_PATH", str(demo.folder / "logs"))
        return write_docs(demo.load(captures=[], as_of=DEMO_AS_OF))


@pytest.fixture(scope="session")
def kafka_lake(tmp_path_factory: pytest.TempPathFactory) -> "Lake":
    """The lake of all tests that land from Kafka; each looks at its own topics."""
    from support.lakes import Lake

    return Lake(tmp_path_factory.mktemp("kafka-lake"))


@pytest.fixture(scope="module")
def lake(kafka: "Kafka", kafka_lake: "Lake") -> "Lake":
    """That lake with that broker. Other modules make a lake of their own under this name."""
    return kafka_lake
