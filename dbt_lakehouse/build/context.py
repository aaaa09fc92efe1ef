"""dbt's context where a macro is called: the command, and the node that it compiles."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

COMMANDS_THAT_ONLY_COMPILE: Final = frozenset({"compile", "generate", "list", "parse"})
_BUILDS: Final = frozenset({"run", "build", "retry"})
_TESTS: Final = frozenset({"test", "build", "retry"})


@dataclass(frozen=True, slots=True)
class Context:
    """dbt's ``context``, which macros pass on as it is."""

    of: Mapping[str, Any]

    @property
    def this(self) -> Any:
        """The relation of the model."""
        return self.of["this"]

    @property
    def model(self) -> Mapping[str, Any]:
        """The node, as dbt's manifest has it."""
        model: Mapping[str, Any] = self.of["model"]
        return model

    @property
    def is_building(self) -> bool:
        """Whether a model is run, and not only compiled."""
        return self._command in _BUILDS and self._kind == "model"

    @property
    def is_testing(self) -> bool:
        """Whether the command runs data tests."""
        return self._command in _TESTS

    @property
    def is_decoding(self) -> bool:
        """Whether the compiled SQL is run. A unit test's is not: its payloads exist in no other
        query.
        """
        return self._command not in COMMANDS_THAT_ONLY_COMPILE and self._kind != "unit_test"

    @property
    def tests_increment(self) -> bool:
        """Whether a unit test is of the SQL for an existing table: it overrides dbt's macro
        ``is_incremental``.
        """
        return self._kind == "unit_test" and bool(self.of["dbt"]["is_incremental"]())

    @property
    def is_full_refresh(self) -> bool:
        """Whether the model's table is rebuilt in any case, by an option of the command or the
        model's config.
        """
        return bool(self.of["should_full_refresh"]())

    def var(self, name: str, default: Any = None) -> Any:
        """A variable of the project, or the unit test's override."""
        return self.of["var"](name, default)

    def ref(self, name: str) -> Any:
        """The relation of a model that the node depends on."""
        return self.of["ref"](name)

    def warn(self, message: str) -> None:
        """Warn the user; an error with dbt's ``--warn-error``."""
        self.of["exceptions"]["warn"](message)

    @property
    def _command(self) -> str:
        return str(self.of["flags"].WHICH)

    @property
    def _kind(self) -> str | None:
        """The node's resource type; None for an operation, which has no such type."""
        model = self.of.get("model")
        return model and model.get("resource_type")
