"""The errors that a user can act on; each message gives the remedy.

The command line prints them as one line, dbt as a runtime error. Anything else is a bug and shows
its traceback.
"""

from typing import ClassVar

from dbt_lakehouse.redaction import without_secrets


class LakehouseError(Exception):
    """``exit_code`` is the command line's: 1, the machine or a server failed; 2, the call or its
    arguments can't be used. Its text has no secrets, even where it repeats the message of a
    library.
    """

    exit_code: ClassVar[int] = 2

    def __str__(self) -> str:
        return without_secrets(super().__str__())


class ConfigurationError(LakehouseError):
    """A setting that can't work. The message says what to change."""


class NoLakeError(ConfigurationError):
    """There is no lake yet where the settings say. The message says how to create it."""


class LandingError(LakehouseError):
    """Input that can't be landed. The message names the file and the reason."""


class WriteError(LakehouseError):
    """The lake's storage can't be written. The message says why."""

    exit_code = 1


class DataLossError(LakehouseError):
    """Messages that were not landed are gone, or the topic is not the one that was landed."""


class KafkaError(LakehouseError):
    """The brokers can't be used now. The message names them, and what to check."""

    exit_code = 1


class LockedError(LakehouseError):
    """Another process is working on the lake. The message names it."""

    exit_code = 1


class SessionError(LakehouseError):
    """Spark doesn't start, or the lake's catalog or storage can't be used. The message names the
    settings to check.
    """

    exit_code = 1


class ReadError(LakehouseError):
    """The lake's catalog or storage can't be read. The message says why."""

    exit_code = 1


class DamageError(LakehouseError):
    """A file of the lake is damaged. The message names it, and the repair."""

    exit_code = 1


class CacheError(LakehouseError):
    """The cache can't be written. The message says where it is."""

    exit_code = 1


class JarError(LakehouseError):
    """A jar that can't be resolved, or differs from the locked one."""

    exit_code = 1


def comes_of(error: BaseException | None, *kinds: type[BaseException]) -> bool:
    """Whether an error is of one of these kinds, or was raised from one or while one was
    handled.
    """
    while error is not None and not isinstance(error, kinds):
        error = error.__cause__ or error.__context__
    return error is not None
