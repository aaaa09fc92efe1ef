"""What models say of each other, and models that are the call of their macro and no more."""

import pytest
from dbt_common.exceptions import CompilationError

from dbt_lakehouse.runs.graph import log_of, refuse_other_sql

CALL = '{{ current_state(ref("orders_changes"), columns=["a"]) }}'


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        '{{ config(materialized="history") }}\n\n' + CALL + "\n",
        '{{ config(tags=["a"]) }}' + CALL,
        "-- Of the shop.\n" + CALL + "\n  -- No more.\n",
        "{# Of the shop: select 1 #}\n" + CALL,
        '{% set columns = ["a"] %}\n{% do columns.append("b") %}\n'
        '{{ current_state(ref("orders_changes"), columns) }}',
        # By its whole name, in a project that has a macro of the other one.
        '{{ dbt.current_state(ref("orders_changes")) }}',
    ],
)
def test_the_call_of_a_macro(text: str) -> None:
    refuse_other_sql({"name": "orders", "raw_code": text}, "current_state")


@pytest.mark.parametrize(
    "text",
    [
        CALL + "\nwhere a > 1",
        CALL + " limit 1",
        CALL + ";",
        "select * from (" + CALL + ")",
        "with orders as (\n" + CALL + "\n)\n\nselect * from orders",
        "/* no line */ " + CALL,
        CALL.replace(" }}", " | replace('a', 'b') }}"),
        CALL.replace(" }}", " ~ ' limit 1' }}"),
        "{% if target.name == 'dev' %}" + CALL + " limit 1{% endif %}",
        "{% set rows %}" + CALL + "{% endset %}select * from ({{ rows }})",
        CALL + "{{ limited() }}",
        CALL.replace("current_state", "history"),
        "-- Of the shop.\nselect 1 -- {{ current_state() }}",
    ],
)
def test_other_sql_around_it(text: str) -> None:
    with pytest.raises(CompilationError) as caught:
        refuse_other_sql({"name": "orders", "raw_code": text}, "current_state")
    for part in ("orders: ", "where=", "on top"):
        assert part in str(caught.value)


def test_the_name_of_a_log_in_place_of_its_model() -> None:
    with pytest.raises(CompilationError, match=r"take a model, .* ref\('orders_changes'\)"):
        log_of({}, "orders_changes")
