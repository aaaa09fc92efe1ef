"""A project as dbt has parsed it once, for many commands in one process."""

from typing import Any, Final

from dbt.contracts.graph.nodes import CompiledNode, ModelNode

from dbt_lakehouse.session.dbt_commands import read_manifest
from dbt_lakehouse.session.project import Project


class ParsedProject:
    """A project with dbt's manifest of it. To parse it raises ``ProjectError``."""

    def __init__(self, project: Project) -> None:
        self.project: Final = project
        self._manifest: Final[Any] = read_manifest(project)
        self._references: Final = [
            (constraint, constraint.to)
            for node in self._manifest.nodes.values()
            if isinstance(node, ModelNode)
            for constraint in node.all_constraints
        ]

    def manifest(self) -> Any:
        """dbt's manifest, with nothing compiled. dbt adds ephemeral models to a node that it
        takes for new, and leaves them out if the node still has them from the last command. In a
        foreign key's `ref` it leaves the name of a table, which is not a `ref`.
        """
        for node in self._manifest.nodes.values():
            if isinstance(node, CompiledNode):
                node.extra_ctes, node.extra_ctes_injected = [], False
                node._pre_injected_sql = None
        for constraint, to in self._references:
            constraint.to = to
        return self._manifest
