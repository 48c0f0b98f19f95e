"""Error messages are short and take little time to compute, even if they contain large values."""

import tracemalloc
from typing import Any, cast

import pytest

from laurels.errors import InvalidEvent
from laurels.errors.service import InvalidBody
from laurels.model.event import event_fields
from laurels.model.validation import notation, safe_repr
from laurels.wire import requests

LONG = "x" * (4 << 20)


@pytest.mark.parametrize("value", ["x" * 59, "x" * 60, "x" * 61, "é\n" * 50, b"x" * 61])
def test_a_cut_text_is_the_beginning_of_the_whole(value: str | bytes) -> None:
    whole = repr(value)
    assert safe_repr(value) == (whole if len(whole) <= 60 else f"{whole[:59]}…")


def test_a_long_text_is_not_represented_as_a_whole() -> None:
    tracemalloc.start()
    try:
        assert safe_repr(LONG) == "'" + "x" * 58 + "…"
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < len(LONG) / 100


def size(value: object) -> int:
    """Return how many values and characters a nested value has."""
    if isinstance(value, dict):
        return 1 + sum(map(size, value)) + sum(map(size, value.values()))
    return len(value) if isinstance(value, str) else 1 + sum(map(size, cast("list[Any]", value)))


@pytest.mark.parametrize(
    "value",
    [
        [["x"]] * 100_000,
        {LONG: [LONG]},
        {f"k{i}": {"a": ["x" * 99]} for i in range(10_000)},
        [[["x" * 99]] * 100] * 100,
    ],
    ids=["items", "texts", "mappings", "nested"],
)
def test_only_the_beginning_of_a_value_is_represented(value: object) -> None:
    represented: list[object] = []
    whole = repr(value)[:59] + "…"

    def repr_of(value: object) -> str:
        represented.append(value)
        return repr(value)

    token = notation.set(repr_of)
    try:
        assert safe_repr(value) == whole
    finally:
        notation.reset(token)
    assert sum(map(size, represented)) < 61 * 61


def test_errors_shorten_unknown_field_names() -> None:
    with pytest.raises(InvalidEvent) as refused:
        event_fields({"member": "a", "value": 1, LONG: 1})
    assert len(refused.value.what) < 300
    with pytest.raises(InvalidBody) as refused_body:
        requests.fields({"member": "a", LONG: 1}, "member")
    assert len(refused_body.value.what) < 300
