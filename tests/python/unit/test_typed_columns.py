"""Whole columns are typed as their texts are one by one."""

import random
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arrow_values import differing, values_of
from support.typed_texts import TYPES, near_text, plain_text

from python_udfs.typed.columns import arrow_type, typed_column
from python_udfs.typed.values import typed

# What shapes are made of.
CHARACTERS: Final = "0123456789+-.eExXpPdDnNaiftyTZ:/= \t\n\r\x00\x7f\x85\u2028\u0663\uff11"


def assert_typed_alike(texts: list[str | None], type: str) -> None:
    got = typed_column(pa.array(texts, pa.string()), type)
    got.validate(full=True)
    expected = pa.array([typed(text, type) for text in texts], arrow_type(type))
    assert [
        (texts[place], values_of(got)[place], values_of(expected)[place])
        for place in differing(got, expected)
    ] == []


@pytest.mark.parametrize("type", TYPES)
@given(
    st.lists(
        st.none() | st.text(CHARACTERS, max_size=12) | st.integers(0, 2**32),
        max_size=8,
    )
)
@settings(deadline=None)
def test_a_column_has_the_values_of_its_texts(type: str, drawn: list[str | int | None]) -> None:
    texts = [
        near_text(random.Random(each), type) if isinstance(each, int) else each for each in drawn
    ]
    assert_typed_alike(texts, type)


@pytest.mark.parametrize("type", TYPES)
@given(st.integers(0, 2**32), st.booleans())
@settings(deadline=None)
def test_plain_texts_are_typed_as_a_whole_whatever_is_among_them(
    type: str, seed: int, is_clean: bool
) -> None:
    rng = random.Random(seed)
    texts: list[str | None] = [plain_text(rng, type) for _ in range(20)]
    good = [text for text in texts if typed(text, type) is not None]
    assert_typed_alike([*good, None], type)
    if not is_clean:
        assert_typed_alike([*good, near_text(rng, type)], type)


@pytest.mark.parametrize("type", TYPES)
def test_a_part_of_a_column_is_typed_alone(type: str) -> None:
    rng = random.Random(type)
    texts = [plain_text(rng, type) for _ in range(30)]
    part = pa.array(texts, pa.string()).slice(7, 11)
    assert differing(typed_column(part, type), typed_column(pa.array(texts[7:18]), type)) == []


@pytest.mark.parametrize("type", TYPES)
def test_no_texts_are_no_values(type: str) -> None:
    for texts in ([], [None, None]):
        values = typed_column(pa.array(texts, pa.string()), type)
        assert values.type == arrow_type(type)
        assert values.null_count == len(values) == len(texts)


def test_numbers_of_more_digits_than_arrow_can_tell_are_none() -> None:
    # Arrow 26 makes 81149055879561969585.07... of the first one.
    for text in ("008825932386054517870001606148215458279", "9" * 39, "9" * 60):
        for type in ("decimal(38,18)", "decimal(38,0)", "decimal(9,2)"):
            assert_typed_alike([text, "1"], type)


def test_floats_of_a_rare_shape_are_told_apart_by_their_digits_too() -> None:
    for text in (".27582335101255672982", "5.27582335101255672982", ".5", ".275823351"):
        assert_typed_alike([text, None], "float")
        assert_typed_alike([text, "1.5"], "float")


@pytest.mark.parametrize("type", ["float", "double"])
def test_numbers_too_small_for_their_type_are_no_zeros(type: str) -> None:
    small = ["1e-400", "-1E-400", "0.0001e-396", "0." + "0" * 44 + "1", "0." + "0" * 400 + "1"]
    zeros = ["0", "-0.0", "0e-400", "0" * 60, "0." + "0" * 400]
    for text in small:
        assert_typed_alike([text, "1.5", None], type)
        assert_typed_alike([*zeros, text, "1e-3"], type)
    assert typed_column(pa.array([*zeros, "1e-3"]), type).null_count == 0
    assert typed_column(pa.array([small[0], "0.0"]), type).to_pylist() == [None, 0.0]


def test_hexadecimal_integers_are_none() -> None:
    assert typed_column(pa.array(["0x1F", "7"]), "int").to_pylist() == [None, 7]


@pytest.mark.parametrize("type", ["struct<a:int>", "decimal(39,2)"])
def test_other_types_are_refused(type: str) -> None:
    with pytest.raises(ValueError, match="type"):
        typed_column(pa.array(["1"]), type)
