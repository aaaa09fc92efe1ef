"""The errors that a user can do something about; each message says what.

The command line prints them as one line, dbt as a runtime error. Anything else is a bug and shows
its traceback.
"""

from typing import ClassVar

from dbt_lakehouse.redaction import without_secrets


class LakehouseError(Exception):
    """``exit_code`` is the command line's: 1, the machine or a server failed; 2, the call or what
    it was given can't be used. As text it has no secrets, even where it repeats the message of a
    library.
    """

    exit_code: ClassVar[int] = 2

    def __str__(self) -> str:
        return without_secrets(super().__str__())


class ConfigurationError(LakehouseError):
    """A setting that can't work; the message says what to change."""


class NoLakeError(ConfigurationError):
    """There is no lake yet where the settings say; the message says what makes it."""


class LandingError(LakehouseError):
    """Input that can't be landed; the message names the file and says why."""


class WriteError(LakehouseError):
    """The lake's storage can't be written; the message says why."""

    exit_code = 1


class DataLossError(LakehouseError):
    """Messages that were not landed are gone, or the topic is not the one that was landed."""


class KafkaError(LakehouseError):
    """The brokers can't be used now; the message names which, and what to look at."""

    exit_code = 1


class LockedError(LakehouseError):
    """Another process is at work on the lake; the message says which."""

    exit_code = 1


class SessionError(LakehouseError):
    """Spark doesn't start, or the lake's catalog or storage can't be used; the message says which
    settings to look at.
    """

    exit_code = 1


class ReadError(LakehouseError):
    """The lake's catalog or storage can't be read; the message says why."""

    exit_code = 1


class DamageError(LakehouseError):
    """A file of the lake is damaged; the message says which, and how it is repaired."""

    exit_code = 1


class CacheError(LakehouseError):
    """The cache can't be written; the message says where it is."""

    exit_code = 1


class JarError(LakehouseError):
    """A jar that can't be resolved, or isn't the one that was locked."""

    exit_code = 1


def comes_of(error: BaseException | None, *kinds: type[BaseException]) -> bool:
    """Whether it is one of these kinds, or was raised for one or while one was handled."""
    while error is not None and not isinstance(error, kinds):
        error = error.__cause__ or error.__context__
    return error is not None
