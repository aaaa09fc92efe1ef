"""dbt's own tests for adapters (``dbt-tests-adapter``): what dbt promises of any adapter, and
dbt-spark of its subclass, holds for the lake. Left out are those of other SQL dialects (``::text``,
``varchar``), and of what docs/dbt.md says the lake lacks: grants, constraints, ``dbt clone``,
Python models.
"""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from dbt.tests.adapter.basic.test_adapter_methods import BaseAdapterMethod
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_empty import BaseEmpty
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_incremental import (
    BaseIncremental,
    BaseIncrementalNotSchemaChange,
)
from dbt.tests.adapter.basic.test_singular_tests import BaseSingularTests
from dbt.tests.adapter.basic.test_singular_tests_ephemeral import BaseSingularTestsEphemeral
from dbt.tests.adapter.basic.test_snapshot_check_cols import BaseSnapshotCheckCols
from dbt.tests.adapter.basic.test_snapshot_timestamp import BaseSnapshotTimestamp
from dbt.tests.adapter.basic.test_table_materialization import BaseTableMaterialization
from dbt.tests.adapter.basic.test_validate_connection import BaseValidateConnection
from dbt.tests.adapter.concurrency.test_concurrency import BaseConcurrency
from dbt.tests.adapter.constraints import fixtures as contracts
from dbt.tests.adapter.constraints.test_constraints import (
    BaseIncrementalConstraintsColumnsEqual,
    BaseTableConstraintsColumnsEqual,
    BaseViewConstraintsColumnsEqual,
)
from dbt.tests.adapter.dbt_show.test_dbt_show import BaseShowLimit, BaseShowSqlHeader
from dbt.tests.adapter.empty.test_empty import BaseTestEmpty, BaseTestEmptyInlineSourceRef
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import (
    BaseMergeExcludeColumns,
)
from dbt.tests.adapter.incremental.test_incremental_microbatch import BaseMicrobatch
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import (
    BaseIncrementalOnSchemaChangeSetup,
)
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey
from dbt.tests.adapter.persist_docs.test_persist_docs import BasePersistDocsAllColumnsMissing
from dbt.tests.adapter.query_comment.test_query_comment import (
    BaseEmptyQueryComments,
    BaseMacroQueryComments,
    BaseQueryComments,
)
from dbt.tests.adapter.relations.test_changing_relation_type import BaseChangeRelationTypeValidator
from dbt.tests.adapter.relations.test_dropping_schema_named import BaseDropSchemaNamed
from dbt.tests.adapter.store_test_failures_tests import basic as store_failures
from dbt.tests.adapter.unit_testing.test_case_insensitivity import BaseUnitTestCaseInsensivity
from dbt.tests.adapter.unit_testing.test_invalid_input import BaseUnitTestInvalidInput
from dbt.tests.util import run_dbt

from dbt_lakehouse.config.paths import ROOT

# dbt's fixtures of a project.
pytest_plugins = ["dbt.tests.fixtures.project"]
# Theirs are methods of classes; a failed command ends with an exception that keeps its log open.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestRemovedIn10Warning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="session")
def dbt_profile_target(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    lake = tmp_path_factory.mktemp("lake")
    profile = (ROOT / "profiles" / "profiles.yml").read_text()
    profile = profile.replace("{{ env_var('LAKEHOUSE_LAKE', 'lake') }}", str(lake))
    target: dict[str, Any] = yaml.safe_load(profile)["cdc_lakehouse"]["outputs"]["dev"]
    return target


@pytest.fixture(scope="class")
def dbt_project_yml(project_root: Any, project_config_update: Any) -> dict[str, Any]:
    config: dict[str, Any] = {"name": "test", "profile": "test"} | project_config_update
    config["vars"] = {"topics": [], **config.get("vars", {})}
    Path(project_root, "dbt_project.yml").write_text(yaml.safe_dump(config))
    return config


class TestAdapterMethods(BaseAdapterMethod):
    pass


class TestSchemaChange(BaseIncrementalOnSchemaChangeSetup):
    def test_new_columns_are_appended(self, project: Any) -> None:
        # dbt's tests have no types.
        self.run_incremental_append_new_columns(project)  # type: ignore[no-untyped-call]


# dbt itself rounds to 28 digits.
MANY_DIGITS: Final = "0.0000000000000000000000001234567890123456789"


class TestSeedValues:
    """dbt-spark's sessions make the text ``None`` of null, and doubles of whole numbers and of
    all in a column with fractions.
    """

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        lines = (
            "id,name,amount,big,exact,more,most,on_day,is_open",
            "1,O'Brien \\ 100%,1.10,9007199254740993,0.5,9223372036854775808,"
            f"{MANY_DIGITS},2026-11-29,true",
            "2,,,,9007199254740993,,1,,",
        )
        return {"values.csv": "\n".join(lines)}

    def test_a_seed_has_the_values_of_its_file(self, project: Any) -> None:
        run_dbt(["seed"])
        rows = project.run_sql(
            "select id, name, cast(amount as string), big, cast(exact as string),"
            " cast(more as string), most, cast(on_day as string), is_open"
            " from {schema}.values order by id",
            fetch="all",
        )
        assert [tuple(row) for row in rows] == [
            (
                *(1, "O'Brien \\ 100%", "1.1", 9007199254740993, "0.5", "9223372036854775808"),
                *(MANY_DIGITS, "2026-11-29", True),
            ),
            (2, None, None, None, "9007199254740993.0", None, "1", None, None),
        ]


class TestUpperCaseModel:
    """A catalog that keeps the case of names: dbt-spark looks for a name in lower case."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "ORDERS.sql": "{{ config(materialized='incremental', unique_key='id') }} select 1 as id"
        }

    def test_it_is_found_again(self, project: Any) -> None:
        for _ in range(2):
            assert len(run_dbt(["run"])) == 1
        assert project.run_sql("select count(*) from {schema}.ORDERS", fetch="one")[0] == 1


@pytest.mark.long
class TestSimpleMaterializations(BaseSimpleMaterializations):
    pass


# What is asked of Iceberg, unit/test_macros.py says.
@pytest.mark.long
class TestSchemaSync(BaseIncrementalOnSchemaChangeSetup):
    def test_columns_that_a_model_has_no_longer_are_dropped(self, project: Any) -> None:
        """dbt-spark refuses to."""
        self.run_incremental_sync_all_columns(project)  # type: ignore[no-untyped-call]


@pytest.mark.long
class TestEmpty(BaseEmpty):
    pass


@pytest.mark.long
class TestEphemeral(BaseEphemeral):
    pass


@pytest.mark.long
class TestGenericTests(BaseGenericTests):
    pass


@pytest.mark.long
class TestIncremental(BaseIncremental):
    pass


@pytest.mark.long
class TestIncrementalNotSchemaChange(BaseIncrementalNotSchemaChange):
    pass


@pytest.mark.long
class TestSingularTests(BaseSingularTests):
    pass


@pytest.mark.long
class TestSingularTestsEphemeral(BaseSingularTestsEphemeral):
    pass


@pytest.mark.long
class TestSnapshotCheckCols(BaseSnapshotCheckCols):
    pass


@pytest.mark.long
class TestSnapshotTimestamp(BaseSnapshotTimestamp):
    pass


@pytest.mark.long
class TestTableMaterialization(BaseTableMaterialization):
    pass


@pytest.mark.long
class TestValidateConnection(BaseValidateConnection):
    pass


@pytest.mark.long
class TestConcurrency(BaseConcurrency):
    pass


def _without_constraints(schema: str) -> str:
    """A schema of theirs with Spark's name of a text, and no constraints: they are not enforced."""
    models = yaml.safe_load(schema.replace("text", "string"))["models"]
    for column in (column for model in models for column in model["columns"]):
        column.pop("constraints", None)
    changed: str = yaml.safe_dump({"models": models})
    return changed


class _Contract:
    """A contract with types as Spark names them."""

    materialized = ""

    @pytest.fixture(scope="class")
    def models(self, request: pytest.FixtureRequest) -> dict[str, str]:
        kind = request.cls.materialized
        return {
            "my_model_wrong_order.sql": getattr(contracts, f"my_model{kind}_wrong_order_sql"),
            "my_model_wrong_name.sql": getattr(contracts, f"my_model{kind}_wrong_name_sql"),
            "constraints_schema.yml": _without_constraints(contracts.model_schema_yml),
        }

    @pytest.fixture
    def string_type(self) -> str:
        return "string"

    @pytest.fixture
    def int_type(self) -> str:
        return "int"

    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        """Value, type, and type in the message of a mismatch."""
        return [
            ["1", "int", "int"],
            ["'1'", "string", "string"],
            ["true", "boolean", "boolean"],
            ["array('1', '2')", "array<string>", "array<string>"],
            ["cast(6.45 as decimal(3,2))", "decimal(3,2)", "decimal(3,2)"],
            ["date '2026-11-29'", "date", "date"],
            ["timestamp '2026-11-29 00:00:00'", "timestamp", "timestamp"],
        ]


@pytest.mark.long
class TestTableContract(_Contract, BaseTableConstraintsColumnsEqual):
    pass


@pytest.mark.long
class TestViewContract(_Contract, BaseViewConstraintsColumnsEqual):
    materialized = "_view"


@pytest.mark.long
class TestIncrementalContract(_Contract, BaseIncrementalConstraintsColumnsEqual):
    materialized = "_incremental"


@pytest.mark.long
class TestShowLimit(BaseShowLimit):
    pass


@pytest.mark.long
class TestShowSqlHeader(BaseShowSqlHeader):
    pass


@pytest.mark.long
class TestEmptyFlag(BaseTestEmpty):
    pass


@pytest.mark.long
class TestEmptyFlagInlineSourceRef(BaseTestEmptyInlineSourceRef):
    pass


@pytest.mark.long
class TestMergeExcludeColumns(BaseMergeExcludeColumns):
    pass


@pytest.mark.long
class TestMicrobatch(BaseMicrobatch):
    @pytest.fixture(scope="class")
    def microbatch_model_sql(self) -> str:
        return """
        {{ config(
            materialized='incremental',
            incremental_strategy='microbatch',
            event_time='event_time',
            batch_size='day',
            begin=modules.datetime.datetime(2020, 1, 1, 0, 0, 0),
            partition_by=['date_day']
        ) }}
        select *, cast(event_time as date) as date_day from {{ ref('input_model') }}
        """


@pytest.mark.long
class TestUniqueKey(BaseIncrementalUniqueKey):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        # It inserts texts into that column, which Spark refuses for one of dates.
        return {"seeds": {"+column_types": {"last_visit_date": "string"}}}


@pytest.mark.long
class TestPersistDocsAllColumnsMissing(BasePersistDocsAllColumnsMissing):
    pass


@pytest.mark.long
class TestQueryComments(BaseQueryComments):
    pass


@pytest.mark.long
class TestMacroQueryComments(BaseMacroQueryComments):
    pass


@pytest.mark.long
class TestEmptyQueryComments(BaseEmptyQueryComments):
    pass


@pytest.mark.long
class TestChangeRelationType(BaseChangeRelationTypeValidator):
    pass


@pytest.mark.long
class TestDropSchemaNamed(BaseDropSchemaNamed):
    pass


@pytest.mark.long
class TestStoreTestFailuresAsInteractions(store_failures.StoreTestFailuresAsInteractions):
    pass


@pytest.mark.long
class TestStoreTestFailuresAsGeneric(store_failures.StoreTestFailuresAsGeneric):
    pass


@pytest.mark.long
class TestStoreTestFailuresAsExceptions(store_failures.StoreTestFailuresAsExceptions):
    pass


@pytest.mark.long
class TestUnitTestCaseInsensitivity(BaseUnitTestCaseInsensivity):
    pass


@pytest.mark.long
class TestUnitTestInvalidInput(BaseUnitTestInvalidInput):
    pass
