"""Declarations of models, and what they mean for what is built."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from dbt.adapters.base.relation import BaseRelation
from dbt_common.exceptions import CompilationError

from dbt import selected_resources
from dbt.adapters.lakehouse.lake.part import LakePart
from dbt_lakehouse.build import data_tests
from dbt_lakehouse.declared import contracts, fold_of_log, message_keys, same_events, widening
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.runs import (
    graph,
)
from dbt_lakehouse.runs.decisions import Found, Rebuilt
from dbt_lakehouse.runs.model_run import DOUBTS
from dbt_lakehouse.runs.taken import TakenEvents, taken


class Declared(LakePart):
    """A part of ``SparkLake``; its protocol is in ``build.lake``."""

    def fold_of(
        self,
        changes: BaseRelation,
        columns: Sequence[str] | None = None,
        track_columns: Sequence[str] | None = None,
        is_history: bool = False,
        bitemporal: bool = False,
        deleted_rows: bool = False,
    ) -> Fold:
        """What a gold table or a history takes of its log's declaration."""
        log = self.followed(graph.log_of(self._lake.nodes, changes), changes)
        return fold_of_log.fold(
            log,
            columns,
            track_columns,
            is_history=is_history,
            bitemporal=bitemporal,
            deleted_rows=deleted_rows,
        )

    def fold_to_test(
        self, model: BaseRelation, test: str, current: BaseRelation | None = None
    ) -> Fold:
        """What an existing table takes of it, for a test of that name; ``current`` is the gold
        table with which a history is compared. Stops a test of another kind of table.
        """
        node = data_tests.node_to_test(self._lake.nodes, model, test)
        if current is not None:
            data_tests.refuse_other_gold(self._lake.nodes, node, current)
        log = graph.log_node(self._lake.nodes, node)
        declared = self.followed(log.config.meta["change_log"], self._lake.catalog.relation(log))
        return graph.fold_of_model(self._lake.nodes, node, declared)

    def fold_of_table(self, model: BaseRelation) -> Fold:
        return graph.fold_of_model(self._lake.nodes, graph.node_of(self._lake.nodes, model))

    def log_to_test(self, log: BaseRelation, test: str) -> dict[str, Any]:
        """The declaration of a change log, for a test as in ``fold_to_test``."""
        node = data_tests.node_to_test(self._lake.nodes, log, test)
        return dict(self.followed(node.config.meta["change_log"], log))

    def followed(self, log: Mapping[str, Any], relation: BaseRelation) -> Mapping[str, Any]:
        """A change log's declaration with the current types of its columns, see
        ``dbt_lakehouse.declared.widening``.
        """
        if not log.get("follow"):
            return log
        # This command may have widened them since.
        self._handle.looks.pop(str(relation), None)
        table = self._lake.catalog.look_at(relation)
        return log if table is None else widening.followed(log, table.properties)

    def follows(self, model: Any) -> bool:
        """Whether the columns of a gold table's or history's change log follow the source."""
        node = self._lake.nodes.get(model["unique_id"])
        return node is not None and graph.is_of_log(node) and self._follows(node)

    def _follows(self, node: Any) -> bool:
        return bool(graph.log_node(self._lake.nodes, node).config.meta["change_log"].get("follow"))

    def log_of_model(self, model: BaseRelation) -> BaseRelation:
        """The change log of a gold table or history."""
        return self._lake.catalog.relation(
            graph.log_node(self._lake.nodes, graph.node_of(self._lake.nodes, model))
        )

    def check_contract(self, model: Any, of: Fold, columns: Sequence[str]) -> None:
        """Stop a model whose contract is enforced if its columns or their types differ from the
        contract.
        """
        if model["config"]["contract"]["enforced"]:
            contracts.check(model["name"], model["columns"], of.typed(columns), self.follows(model))

    def check_contracts_behind(self, log: Any, declared: Mapping[str, Any]) -> None:
        for node in graph.built_of(self._lake.nodes, log["unique_id"]):
            if node.unique_id in selected_resources.SELECTED_RESOURCES:
                of = graph.fold_of_model(self._lake.nodes, node, declared)
                model = node.to_dict()
                self.check_contract(model, of, graph.columns_of_model(node, of))

    def contracts_that_fail(self) -> list[str]:
        """A sentence for each model of this command whose contract is certain to fail, without
        looking at the lake.
        """
        chosen = {*selected_resources.SELECTED_RESOURCES}
        found = []
        for node in self._lake.nodes.values():
            if node.unique_id in chosen and graph.is_of_log(node) and node.contract.enforced:
                # Another mistake is reported when the model is compiled.
                with suppress(CompilationError):
                    of = graph.fold_of_model(self._lake.nodes, node)
                    made = of.typed(graph.columns_of_model(node, of))
                    columns = node.to_dict()["columns"]
                    found.append(contracts.foreseen(node.name, columns, made, self._follows(node)))
        return [sentence for sentence in found if sentence is not None]

    def foreseen(self) -> list[str]:
        """The warnings of this command's models that need neither Spark nor the lake."""
        return [*self.contracts_that_fail(), *self._same_events()]

    def _same_events(self) -> list[str]:
        """A sentence for the change logs that take the same events, if this command has one."""
        logs = graph.change_log_nodes(self._lake.nodes)
        chosen = {*selected_resources.SELECTED_RESOURCES}
        if not any(node.unique_id in chosen for node in logs):
            return []
        return same_events.told(
            (node.original_file_path, node.config.meta["change_log"]) for node in logs
        )

    def may_leave(self, changes: BaseRelation, of: Fold) -> bool:
        """Whether any event of a log may leave columns unchanged."""
        if not of.may_leave or of.partial:
            return of.may_leave
        table = self._lake.catalog.look_at(changes)
        return table is None or graph.may_leave(table)

    def may_doubt_key(self, changes: BaseRelation) -> bool:
        """Whether to look for rows which show that a log's key is not unique."""
        log = graph.log_of(self._lake.nodes, changes)
        return bool(message_keys.key_fields(log)) and not message_keys.is_certain(log)

    def keep_doubts(self, this: BaseRelation, found: Found | Rebuilt) -> None:
        """Keep with a model's table what its new rows say of their key."""
        if found.reinserted and found.reinserted_at is not None:
            place = json.loads(found.reinserted_at)
            self._lake.runs.run_of(this).doubts = json.dumps({"keys": found.reinserted, **place})

    def doubt_of_rows(self, this: BaseRelation, of: Fold) -> str | None:
        """The run's warning about a key that seems not to be unique, if any."""
        run = self._lake.runs.run_of(this)
        noted = run.doubts or run.noted(DOUBTS)
        if noted is None or of.keyless or not self.may_doubt_key(run.upstreams[0]):
            return None
        log = graph.log_of(self._lake.nodes, run.upstreams[0])
        return message_keys.doubt(log, json.loads(noted), str(this))

    def taken_events(self) -> TakenEvents:
        """The condition of the events that the project's change logs take, see
        ``dbt_lakehouse.runs.taken``.
        """
        return taken(graph.change_logs(self._lake.nodes))
