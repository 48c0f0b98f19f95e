"""The calls into which a batch is divided: each call has few members, and each event is in exactly
one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import laurels
from laurels.errors import BatchTooLarge
from laurels.model.batch import Batch, batch_of
from laurels.model.event import EventReader
from laurels.model.rules import Rules
from laurels.stores.redis import dividing

LABEL = laurels.Board("b", scopes=[[], ["room"]], rank_by=["room"])


def batch(
    board: laurels.Board, members: Sequence[int], *, ids: bool = False, **kind: Any
) -> tuple[Batch, Rules]:
    rules = board.rules()
    events = [
        (f"m{member}", i, None, f"{i}" if ids else None, {"room": str(i)} if rules.scoped else None)
        for i, member in enumerate(members)
    ]
    return batch_of(EventReader(rules).gather(events), 1, 0, **kind), rules


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dividing, "MAX_CALL_MEMBERS", 6)
    monkeypatch.setattr(dividing, "CALL_EVENTS", 20)


@example(members=[*range(30)] * 4, by_label=False, ids=False)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=120), st.booleans(), st.booleans())
def test_each_event_is_in_one_call_and_events_of_a_member_stay_in_order(
    members: list[int], by_label: bool, ids: bool
) -> None:
    whole, rules = batch(LABEL if by_label else laurels.Board("b"), members, ids=ids)
    most = 2 if by_label else 6
    calls = dividing.calls_of(whole, rules)
    assert sorted(place for places, _ in calls for place in places) == list(range(len(members)))
    for places, call in calls:
        assert [int(member[1:]) for member in call.member_list()] == [members[i] for i in places]
        assert list(call.values[0]) == list(places)
        assert call.size <= 20
        assert len(set(call.member_list())) <= most
        if call.labels is not None:
            assert [call.labels.of(i) for i in range(call.size)] == [
                {"room": str(i)} for i in places
            ]
    if by_label or ids:
        assert [place for places, _ in calls for place in places] == list(range(len(members)))
    else:
        of_member: dict[int, list[int]] = {}
        for places, _ in calls:
            for place in places:
                of_member.setdefault(members[place], []).append(place)
        assert all(places == sorted(places) for places in of_member.values())
        assert len(calls) <= -(-len(set(members)) // most) + len(members) // 20


def test_a_batch_that_is_counted_as_a_whole_is_one_call_or_refused() -> None:
    whole, rules = batch(laurels.Board("b"), range(20), atomic=True)
    assert [(list(places), call) for places, call in dividing.calls_of(whole, rules)] == [
        (list(range(20)), whole)
    ]
    with pytest.raises(BatchTooLarge, match="at most 20"):
        dividing.calls_of(*batch(laurels.Board("b"), range(21), atomic=True))
