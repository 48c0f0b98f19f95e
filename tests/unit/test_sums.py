"""The sums that are computed for a batch equal the result of counting its events one after
another."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laurels
from laurels.core.board_state import Boards
from laurels.core.index import Outcome
from laurels.model.batch import Batch, batch_of
from laurels.model.event import EventReader
from laurels.stores.redis.index.sums import Sums, sums_of

VALUES = st.integers(-5, 5).filter(bool) | st.sampled_from([2**52, -(2**52)])


def added_up(
    events: Sequence[Any],
    stamps: Sequence[int] | int = 7,
    *,
    absolute: bool = False,
    **fields: Any,
) -> Sums | None:
    """Return the sums of a batch of events on a new board, which is defined by `fields`."""
    boards = Boards()
    state = boards.open(laurels.Board("b", **fields), 1, 1, 0)
    batch = whole(state.rules, events, absolute)
    members = dict.fromkeys(batch.member_list())
    slots = {member: i for i, member in enumerate(members)}
    who = [slots[member] for member in batch.member_list()]
    return sums_of(state.rules, batch, boards.plan(batch), who, len(slots), stamps)


def whole(rules: Any, events: Sequence[Any], absolute: bool = False) -> Batch:
    return batch_of(EventReader(rules).gather(list(events)), 1, 10, absolute=absolute)


@given(
    st.lists(st.tuples(st.integers(0, 5), VALUES, st.integers(0, 9)), min_size=1, max_size=40),
    st.lists(st.none() | st.integers(-20, 20), min_size=6, max_size=6),
    st.booleans(),
)
def test_sums_give_the_same_results_as_single_events(
    given_: list[tuple[int, int, int]], there: list[int | None], asc: bool
) -> None:
    column = laurels.Column(order="asc" if asc else "desc")
    sign = 1 if asc else -1
    stamps = [stamp for _, _, stamp in given_]
    sums = added_up([(f"m{i}", value) for i, value, _ in given_], stamps, columns=[column])
    totals: dict[int, int] = {}
    prefixes: dict[int, list[int]] = {}
    for i, value, _ in given_:
        totals[i] = totals.get(i, 0) + sign * value
        prefixes.setdefault(i, []).append(totals[i])
    if any(abs(prefix) >= 2**53 for own in prefixes.values() for prefix in own):
        assert sums is None
        return
    assert sums is not None
    order = list(totals)
    assert sums.sums == list(totals.values())
    assert sums.lows == [min(prefixes[i]) for i in order]
    assert sums.highs == [max(prefixes[i]) for i in order]
    assert sums.stamps == [max(s for j, _, s in given_ if j == i) for i in order]
    payload = sums.encode()
    assert ("least" in payload) == ("most" in payload) == (len(given_) > len(order))

    bases = {i: there[i] for i in order}
    outcomes = sums.outcomes([False if base is None else base for base in bases.values()])
    assert outcomes.codes == bytes([Outcome.APPLIED]) * len(given_)
    assert outcomes.before is not None
    assert outcomes.after is not None
    for event, (i, value, _) in enumerate(given_):
        was = bases[i]
        assert outcomes.before.present[event] == (was is not None)
        assert outcomes.before.words[0][event] == (was or 0)
        bases[i] = (was or 0) + sign * value
        assert outcomes.after.present[event] == 1
        assert outcomes.after.words[0][event] == bases[i]
    assert sums.outcomes([]).before is None


@pytest.mark.parametrize(
    ("events", "fields"),
    [
        ([("a", 0)], {}),
        ([("a", 1, None, "id")], {}),
        ([("a", (1, 2))], {"columns": [laurels.Column("x"), laurels.Column("y")]}),
        ([("a", 1)], {"columns": [laurels.Column(op="last")]}),
        ([("a", 1)], {"columns": [laurels.Column(op="best")]}),
        ([("a", 1)], {"windows": ["decay:1h"]}),
        ([("a", 1)], {"windows": ["rolling:2d/1d,refresh=1h"]}),
        ([("a", 1)], {"scopes": [[], ["room"]]}),
        ([("a", 1, -90_000_000), ("b", 1, 5)], {"windows": ["day", "all"]}),
        ([("a", 1, -90_000_000)], {"windows": ["day", "all"]}),
    ],
)
def test_no_sums_are_computed_if_the_result_depends_on_single_events(
    events: Sequence[Any], fields: dict[str, Any]
) -> None:
    assert added_up(events, array("q", [7] * len(events)), **fields) is None


def test_no_sums_are_computed_for_absolute_totals() -> None:
    assert added_up([("a", 1)], absolute=True) is None
    assert added_up([("a", 1)]) is not None


def test_equal_stamps_are_encoded_once() -> None:
    sums = added_up([("a", 1), ("a", 2)])
    assert sums is not None
    assert sums.encode() == {"events": 2, "sums": [-3], "stamps": 7, "least": [-3], "most": [-1]}
