"""A query for many entries must not block an event loop."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laurels.core.commands import SubmitMany
from laurels.core.queries import QUERIES
from laurels.core.query import Query
from laurels.stores.intake.commands import ON_LOOP, is_long

SIZES = {"limit", "radius", "members"}
MANY = ON_LOOP + 1


@pytest.mark.parametrize("kind", QUERIES)
def test_a_query_for_many_entries_reports_a_large_size(kind: type[Query[Any]]) -> None:
    required: dict[str, Any] = {"member": "ann", "rank": 1, "percentile": 5, "members": ["ann"]}
    fields = {field.name for field in msgspec.structs.fields(kind)}
    arguments = {name: value for name, value in required.items() if name in fields}
    few = {"limit": 10} if "limit" in fields else {}
    assert kind(**arguments | few).size <= ON_LOOP
    for name in SIZES & fields:
        many: Any = ["ann"] * MANY if name == "members" else MANY
        if kind.verb == "standings":  # `standings` counts each different member once
            many = [f"m{i}" for i in range(MANY)]
        assert kind(**arguments | {name: many}).size > ON_LOOP


def test_a_batch_is_long_if_it_has_many_events_or_large_ones() -> None:
    few: list[tuple[str, int]] = [("ann", 1)]
    assert not is_long(SubmitMany("b", few))
    assert is_long(SubmitMany("b", few * MANY))
    assert is_long(SubmitMany("b", iter(few)))
    assert is_long(SubmitMany("b", few, is_large=True))
    assert is_long(msgspec.structs.replace(SubmitMany("b", iter(few), is_large=True), events=few))
