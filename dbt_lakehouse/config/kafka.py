"""The profile's ``kafka.*`` entries, for everything that connects to the brokers."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from dbt_lakehouse.config.topics import TopicRule
from dbt_lakehouse.errors import ConfigurationError

PREFIX: Final = "kafka."
_SERVERS: Final = "bootstrap.servers"
_PROTOCOL: Final = "security.protocol"
_ISOLATION: Final = "isolation.level"
_LEVELS: Final = ("read_committed", "read_uncommitted")
_REQUEST_TIMEOUT: Final = "request.timeout.ms"
_API_TIMEOUT: Final = "default.api.timeout.ms"
# A healthy broker answers a request within milliseconds and a fetch within seconds. Kafka's own
# defaults (30 and 60 s, and Spark retries three times) make a user wait for minutes.
_ADMIN_TIMEOUTS: Final = {_REQUEST_TIMEOUT: 5_000, _API_TIMEOUT: 8_000}
_READ_TIMEOUTS: Final = {_REQUEST_TIMEOUT: 15_000, _API_TIMEOUT: 20_000}
# Behind each poll, Spark asks for the partition's first and last offset (KafkaDataConsumer), on the
# connection on which the consumer has already asked for the next messages. The broker answers in
# order, so at a partition's end each read took Kafka's default of half a second. Ranges that are
# read end where messages are, so there is nothing to wait for.
_FETCH_WAIT: Final = {"fetch.max.wait.ms": "10"}


class KafkaSettings(NamedTuple):
    """Client settings by Kafka's own names, from the profile."""

    given: Mapping[str, str]

    @property
    def servers(self) -> str:
        """The bootstrap servers."""
        return self.given[_SERVERS]

    @property
    def security_protocol(self) -> str:
        """The security protocol of the bootstrap servers' listener; Kafka's default is none."""
        return self.given.get(_PROTOCOL, "PLAINTEXT").upper()

    @property
    def isolation_level(self) -> str:
        """Whether messages of open and aborted transactions are left out, which is the default."""
        return self.given.get(_ISOLATION, _LEVELS[0])

    @property
    def timeout_ms(self) -> int:
        """The timeout of a request to the brokers."""
        return int(self.admin_options()[_API_TIMEOUT])

    def admin_options(self) -> dict[str, str]:
        """The options of Kafka's AdminClient."""
        options = {**self.given, **self._timeouts(_ADMIN_TIMEOUTS)}
        options.pop(_ISOLATION, None)
        return options

    def look_options(self) -> dict[str, str]:
        """The options of a consumer that looks for one message, and fetches no more than that."""
        return {
            **self.given,
            **self._timeouts(_ADMIN_TIMEOUTS),
            _ISOLATION: self.isolation_level,
            "auto.offset.reset": "none",
            "enable.auto.commit": "false",
            "fetch.max.bytes": "1",
            "max.partition.fetch.bytes": "1",
        }

    def source_options(self) -> dict[str, str]:
        """The options of Spark's Kafka source."""
        timeouts = self._timeouts(_READ_TIMEOUTS)
        options = {**_FETCH_WAIT, **self.given, _ISOLATION: self.isolation_level, **timeouts}
        return {
            **{PREFIX + name: value for name, value in options.items()},
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "fetchOffset.numRetries": "1",
            # The timeout of a read in progress, when a broker stops answering.
            "kafkaConsumer.pollTimeoutMs": timeouts[_API_TIMEOUT],
        }

    def _timeouts(self, defaults: Mapping[str, int]) -> dict[str, str]:
        """Both timeouts, those given first; Kafka refuses an overall timeout below a request's."""
        request = int(self.given.get(_REQUEST_TIMEOUT, defaults[_REQUEST_TIMEOUT]))
        overall = int(self.given.get(_API_TIMEOUT, max(defaults[_API_TIMEOUT], request)))
        return {_REQUEST_TIMEOUT: str(min(request, overall)), _API_TIMEOUT: str(overall)}


class KafkaSource(NamedTuple):
    """The project's settings for landing from Kafka. ``max_messages`` is for one batch,
    ``patience`` the most seconds to wait for another process.
    """

    settings: KafkaSettings
    rules: Sequence[TopicRule]
    max_messages: int
    patience: float


def kafka_settings(parameters: Mapping[str, object]) -> KafkaSettings | None:
    """The settings in a profile's parameters, or None if they name no broker.

    Empty values count as missing, so that a profile can read each from an environment variable.
    Raises ``ConfigurationError`` for a timeout or an isolation level that Kafka doesn't know.
    """
    given = {
        name.removeprefix(PREFIX): str(value).strip()
        for name, value in parameters.items()
        if name.startswith(PREFIX) and value is not None and str(value).strip()
    }
    if _SERVERS not in given:
        return None
    for name in (_REQUEST_TIMEOUT, _API_TIMEOUT):
        if not given.get(name, "0").isdecimal():
            raise ConfigurationError(
                f"{PREFIX}{name} in the profile is {given[name]!r}, not a number of milliseconds"
            )
    if given.get(_ISOLATION, _LEVELS[0]) not in _LEVELS:
        raise ConfigurationError(
            f"{PREFIX}{_ISOLATION} in the profile is {given[_ISOLATION]!r}, not one of"
            f" {' or '.join(_LEVELS)}"
        )
    return KafkaSettings(given)
