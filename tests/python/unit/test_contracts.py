"""A model's contract against the columns that it makes; types that are written in the same way."""

import pytest
from dbt_common.exceptions import CompilationError

from dbt_lakehouse.declared import contracts
from dbt_lakehouse.declared.widening import is_widening

MADE = {"id": "int", "note": "string"}


def declared(**types: str) -> dict[str, dict[str, str]]:
    return {name: {"name": name, "data_type": data_type} for name, data_type in types.items()}


def test_a_contract_that_is_held() -> None:
    contracts.check("orders", declared(note="string", id="int"), MADE)
    contracts.check("orders", {}, {})


def test_all_differences_are_told() -> None:
    with pytest.raises(CompilationError) as caught:
        contracts.check("orders", declared(id="int", title="string", tax="int"), MADE)
    assert (
        "orders: title is declared string, and the model has none; tax is declared int, and the"
        " model has none; note is made by the model, and not declared. Correct the contract"
    ) in str(caught.value)


def test_types_that_follow_the_source_may_be_wider() -> None:
    made = {"id": "bigint", "amount": "decimal(14,3)"}
    yml = declared(id="bigint", amount="decimal(12, 2)")
    contracts.check("orders", yml, made, follows=True)
    assert not is_widening("decimal(12,2)", "decimal(11,2)")


def test_what_is_certain_is_told_without_spark() -> None:
    yml = declared(id="bigint", title="string")
    assert contracts.foreseen("orders", yml, MADE) == (
        "the contract of orders does not fit, and will stop it: id is declared bigint, and the"
        " model makes it int; title is declared string, and the model has none; note is made by the"
        " model, and not declared. Correct the contract in the model's yml, or the change log that"
        " declares its columns"
    )
    # The lake knows how wide they have become.
    assert contracts.foreseen("orders", declared(id="bigint", note="string"), MADE, True) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("INTEGER", "int"),
        ("decimal(12, 2)", "decimal(12,2)"),
        ("numeric", "decimal(10,0)"),
        ("array<int>", "array< integer >"),
        ("struct<a: int>", "map<string,int>"),
        ("varchar(10)", "string"),
    ],
)
def test_what_only_spark_can_tell_is_left_to_it(one: str, other: str) -> None:
    assert contracts.foreseen("orders", declared(id=one), {"id": other}) is None
