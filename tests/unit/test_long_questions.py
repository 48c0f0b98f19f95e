"""A query for many entries must not hold an event loop."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laurels.core.queries import QUERIES
from laurels.core.query import Query
from laurels.stores.intake.commands import ON_LOOP

SIZES = {"limit", "radius", "members"}
MANY = ON_LOOP + 1


@pytest.mark.parametrize("kind", QUERIES)
def test_a_query_for_many_entries_says_so(kind: type[Query[Any]]) -> None:
    required: dict[str, Any] = {"member": "ann", "rank": 1, "percentile": 5, "members": ["ann"]}
    fields = {field.name for field in msgspec.structs.fields(kind)}
    given = {name: value for name, value in required.items() if name in fields}
    assert kind(**given).size <= ON_LOOP
    for name in SIZES & fields:
        many: Any = ["ann"] * MANY if name == "members" else MANY
        if kind.verb == "standings":  # of members that are each asked for once
            many = [f"m{i}" for i in range(MANY)]
        assert kind(**given | {name: many}).size > ON_LOOP
