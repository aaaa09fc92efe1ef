"""Names that a source's columns can't have, because the models have them themselves, or may."""

import json
import re
from pathlib import Path

import pytest
from dbt_common.exceptions import DbtRuntimeError
from support.lakes import Lake
from support.small_project import small_project

from dbt_lakehouse.build.templates import FOLDER
from dbt_lakehouse.commands.generate.naming import column_names
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.declared.columns import RESERVED, is_reserved
from dbt_lakehouse.declared.fold_of_log import DELETED_AT

AS_OF = "2026-11-21 00:00:00"


def test_generated_models_avoid_what_the_macros_refuse() -> None:
    assert (
        column_names(sorted(RESERVED), {})
        .keys()
        .isdisjoint(column_names(sorted(RESERVED), {}).values())
    )
    assert column_names(["_version", "_LH_x", "_Row", "_id"], {}) == {
        "_version": "_version",
        "_LH_x": "source_LH_x",
        "_Row": "source_Row",
        "_id": "_id",
    }


def test_every_name_that_a_step_uses_is_reserved() -> None:
    """In templates, macros, and SQL that is text in Python."""
    used = set()
    files = [*(ROOT / "macros").glob("*/*.sql"), *FOLDER.glob("*.sql")]
    for path in [*files, *(ROOT / "dbt_lakehouse").rglob("*.py")]:
        without_comments = re.sub(r"{#.*?#}", "", path.read_text(), flags=re.DOTALL)
        used |= set(re.findall(r"\bas (_[a-z_]+)\b", without_comments))
    assert len(used) > 40
    # That one is refused where a table has it (fold_of_log).
    assert {name for name in used if not is_reserved(name)} == {DELETED_AT}


@pytest.mark.parametrize(
    ("columns", "gold", "message"),
    [
        ({"_Row": "int"}, "current_state", "a column can't be called _Row"),
        ({"_LH_rank": "int"}, "current_state", "a column can't be called _LH_rank"),
        ({"valid_to": "date"}, "history", "a history has a column valid_to of its own"),
    ],
)
def test_a_model_with_such_a_name_is_refused(
    columns: dict[str, str], gold: str, message: str, tmp_path: Path
) -> None:
    project = small_project(tmp_path / "project")
    (project / "models/silver/stock_changes.sql").write_text(
        f'{{{{ change_log(source_table="stock", key={{"id": "int"}}, columns={json.dumps(columns)})'
        " }}\n"
    )
    (project / "models/gold/stock.sql").write_text(f'{{{{ {gold}(ref("stock_changes")) }}}}\n')
    with pytest.raises(DbtRuntimeError, match=message):
        Lake(tmp_path, project).dbt("compile", "-s", "stock", as_of=AS_OF)
