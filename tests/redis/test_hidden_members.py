"""Hidden members on an index server: what other processes see, what a failed process leaves behind,
many hidden members, and copies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.flows.copying.copying import copy_board
from laurels.stores.redis.index.hidings import HidingWrites
from tests.conftest import Scaled
from tests.internals import copies_of

from .conftest import NOW
from .servers import Server

HOUR_MS = 3_600_000
ODD = ('é/"7\\', "a b", "%25", "x'y", "*", "\u2028")


class Killed(Exception):  # noqa: N818 (names what happened)
    """Stands for the end of a process at this point."""


@pytest.fixture
def pair(server: Server, clock: laurels.ManualClock) -> Iterator[list[Any]]:
    """Return the boards as two processes have opened them."""
    server.call("FLUSHALL")
    with (
        laurels.open(server.url, clock=clock) as one,
        laurels.open(server.url, clock=clock) as other,
    ):
        yield [one, other]


def listed(lb: laurels.Leaderboards, board: str = "b") -> list[str]:
    return [entry.member for entry in lb.top(board, limit=1_000)]


@pytest.mark.parametrize("shards", [1, 3])
def test_the_next_answer_of_every_process_leaves_a_member_out(
    pair: list[laurels.Leaderboards], shards: int
) -> None:
    one, other = pair
    one.create(laurels.Board("b", windows=["all", "rolling:7d/1d"], shards=shards))
    one.submit_many("b", [(member, i) for i, member in enumerate(ODD)])
    for member in ODD:
        assert member in listed(other)
        one.hide("b", member, "a 'bot'")
        assert other.rank("b", member) is None
        assert other.submit("b", member, 1).rank is None
    assert listed(other) == []
    for member in ODD:
        assert other.show("b", member)
        assert one.submit("b", member, 1).rank is not None
    assert sorted(listed(one)) == sorted(ODD)
    one.change("b", title="B", scopes=[[], ["room"]])
    other.hide("b", ODD[0], "again")
    assert one.rank("b", ODD[0]) is None
    assert [each.member for each in one.hidden("b")] == [ODD[0]]
    one.check()


@pytest.mark.parametrize("shards", [1, 3])
def test_answers_with_many_hidden_members(
    pair: list[laurels.Leaderboards], shards: int, scaled: Scaled
) -> None:
    one, other = pair
    rng = Random(shards)
    one.create(laurels.Board("b", tie="first", rank="competition", shards=shards))
    scores = {f"m{i}": rng.randrange(800) for i in range(3_000)}
    one.submit_many("b", list(scores.items()))
    present, absent = scaled(160, 800), scaled(40, 200)
    hidden = {*rng.sample(sorted(scores), present), *[f"absent{i}" for i in range(absent)]}
    for member in hidden:
        one.hide("b", member, "bot")
    kept = {member: score for member, score in scores.items() if member not in hidden}
    ranks = {member: sum(each > own for each in kept.values()) + 1 for member, own in kept.items()}
    assert {entry.member: entry.rank for entry in other.export("b")} == ranks
    some = rng.sample(sorted(scores), 50)
    assert other.ranks("b", some) == [ranks.get(member) for member in some]
    assert len(list(other.hidden("b", limit=10_000))) == present + absent


def test_a_change_on_all_boards_that_was_interrupted_is_completed(
    pair: list[laurels.Leaderboards],
) -> None:
    one, other = pair
    for i in range(12):
        one.create(laurels.Board(f"b{i}", changes="1d"))
        one.submit_many(f"b{i}", [("ann", 2), ("bob", 1)])
        assert listed(other, f"b{i}") == ["ann", "bob"]
    take_up, calls = HidingWrites.take_up, 0

    async def killed(*arguments: Any, **more: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise Killed
        await take_up(*arguments, **more)

    with patch.object(HidingWrites, "take_up", killed), pytest.raises(Killed):
        one.hide(None, "ann", "bot")
    other.hide(None, "bob", "another bot")
    for i in range(12):
        assert listed(other, f"b{i}") == listed(one, f"b{i}") == []
        changes = [(c.kind, c.member) for c in one.changes(f"b{i}") if c.kind == "hide"]
        assert changes == [("hide", "ann"), ("hide", "bob")]
    assert other.show(None, "ann")
    assert listed(one, "b11") == ["ann"]


def test_an_interrupted_hiding_on_a_board_in_shards_is_recorded(
    pair: list[laurels.Leaderboards],
) -> None:
    one, other = pair
    one.create(laurels.Board("b", shards=3, changes="1d"))
    members = [f"m{i}" for i in range(9)]
    one.submit_many("b", [(member, 1) for member in members])
    for member in members:
        with patch.object(HidingWrites, "record_hidden", side_effect=Killed), suppress(Killed):
            one.hide("b", member, "bot")
        assert other.rank("b", member) is None
    hides = [change.member for change in other.changes("b") if change.kind == "hide"]
    assert sorted(map(str, hides)) == members


def test_a_kept_answer_ends_when_a_hiding_ends(
    pair: list[laurels.Leaderboards], clock: laurels.ManualClock
) -> None:
    one, other = pair
    one.create(laurels.Board("b", max_age="60s"))
    one.submit_many("b", [("ann", 2), ("bob", 1)])
    one.hide("b", "ann", "bot", until=NOW + HOUR_MS)
    clock.set(NOW + HOUR_MS - 1)
    assert listed(other) == ["bob"]
    clock.advance(1)
    assert listed(other) == ["ann", "bob"]
    one.hide("b", "ann", "bot")
    # the process that hides a member does not repeat an earlier answer
    assert listed(one) == ["bob"]


def test_a_copy_has_the_hidden_members(
    pair: list[laurels.Leaderboards], clock: laurels.ManualClock
) -> None:
    one, other = pair
    until = NOW + HOUR_MS
    with laurels.open("memory:", clock=clock) as here:
        here.create(laurels.Board("b", tie="member"))
        here.submit_many("b", [("ann", 3), ("bob", 2), ("cid", 1)])
        here.hide("b", "ann", "bot")
        here.hide("b", "bob", "bot", until=until)
        copy_board(copies_of(here), copies_of(one), "b")
        assert listed(one) == listed(other) == ["cid"]
        assert other.hidden("b") == here.hidden("b")
        here.delete("b")
        copy_board(copies_of(other), copies_of(here), "b")
        assert listed(here) == ["cid"]
        assert other.hidden("b") == here.hidden("b")
