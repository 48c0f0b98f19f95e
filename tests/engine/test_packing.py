"""Packed columns of integers take few bytes and unpack to the same values; joined texts split to
the same texts."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laurels.engine.batch.packing import bounds, differences, pack, split_texts, unpack


@given(st.lists(st.one_of(*(st.integers(-(2**bits), 2**bits - 1) for bits in (0, 7, 15, 31, 63)))))
def test_packed_columns_round_trip(column: list[int]) -> None:
    packed = pack(array("q", column))
    assert unpack(packed, len(column)) == array("q", column)


@pytest.mark.parametrize(
    ("column", "packed"),
    [
        ([], b"\0"),
        ([0, 0], b"\0"),
        ([-1], b"\1\xff"),
        ([127, -128], b"\1\x7f\x80"),
        ([128], b"\2\x80\0"),
        ([-32769], b"\4\xff\x7f\xff\xff"),
        ([2**31], b"\x08\0\0\0\x80\0\0\0\0"),
        ([-(2**63)], b"\x08" + bytes(7) + b"\x80"),
    ],
)
def test_a_column_has_the_expected_packed_form(column: list[int], packed: bytes) -> None:
    assert pack(array("q", column)) == packed


@pytest.mark.parametrize(
    ("packed", "n"),
    [
        (b"", 0),
        (b"\1\1", 0),
        (b"\1\1", 2),
        (b"\3\1\1\1", 1),
        (b"\2\1", 1),
        (b"\0", -1),
        (b"\1", -1),
        (b"\0\0", 1),
        (b"\x08" + bytes(8), 2**61 + 1),
    ],
)
def test_invalid_packed_columns_are_refused(packed: bytes, n: int) -> None:
    with pytest.raises(ValueError, match="packed column"):
        unpack(packed, n)


@given(st.integers(-(2**40), 2**40), st.lists(st.integers(-(2**40), 2**40)))
def test_ages_and_instants_are_converted_both_ways(now_ms: int, ats: list[int]) -> None:
    ages = differences(now_ms, array("q", ats))
    assert ages == array("q", [now_ms - at for at in ats])
    assert differences(now_ms, ages) == array("q", ats)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_the_bounds_of_a_column_are_its_least_and_greatest_value(column: list[int]) -> None:
    assert bounds(array("q", column)) == (min(column), max(column))


def test_an_empty_column_has_no_bounds() -> None:
    with pytest.raises(ValueError, match="at least one item"):
        bounds(array("q"))


@given(st.lists(st.binary(max_size=255)))
def test_joined_texts_are_split_into_the_same_texts(texts: list[bytes]) -> None:
    assert split_texts(b"".join(texts), bytes(map(len, texts))) == texts


@pytest.mark.parametrize(("arena", "lengths"), [(b"abc", b"\2"), (b"abc", b"\2\2"), (b"", b"\1")])
def test_wrong_text_lengths_are_refused(arena: bytes, lengths: bytes) -> None:
    with pytest.raises(ValueError, match="do not add up"):
        split_texts(arena, lengths)
