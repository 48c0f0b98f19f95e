"""Restored boards in folders that are opened again, and as the source and target of copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels import ManualClock
from laurels.core.commands import DeleteBoard
from laurels.errors import BoardExists, NotRestorable, UnknownBoard
from laurels.errors.copies import NameTaken
from laurels.flows.copying.copying import copy_board
from tests.internals import copies_of, local

from .seasons import DAY, START_MS

PRIZES: dict[str, Any] = {"list": [{"name": "gold", "ranks": [1, 2], "amount": "5"}]}
WINDOWS: list[Any] = ["all", {"type": "day", "prizes": PRIZES, "archive": "forever"}]


def play(lb: laurels.Leaderboards, clock: ManualClock, name: str = "b", **fields: Any) -> str:
    """Create a board, play a day, pay its prizes, and return the label of the day."""
    lb.create(laurels.Board(name, windows=WINDOWS, changes="30d", **fields))
    lb.submit_many(name, [("ann", 3), ("bob", 2), ("cid", 1)])
    clock.advance(DAY)
    lb.seal()
    for payout in lb.payouts(name, state="due"):
        lb.confirm(name, payout.id, "paid")
    return lb.archived(name)[0].period


def state(lb: laurels.Leaderboards, name: str, label: str) -> dict[str, Any]:
    """Return what is known about a board and one of its days."""
    return {
        "boards": [board.name for board in lb.boards()],
        "restorable": lb.restorable_boards(),
        "day": [(each.member, each.score) for each in lb.top(name, window="day", period=label)],
        "all": [(each.member, each.score) for each in lb.top(name)],
        "payouts": [(each.id, each.board, each.reference) for each in lb.payouts(name)],
        "changes": [(each.id, each.kind) for each in lb.changes(name)],
    }


@pytest.mark.parametrize("snapshots", ["", "deleted", "restored", "both"])
def test_it_is_the_same_after_a_restart(tmp_path: Path, snapshots: str) -> None:
    clock = ManualClock(START_MS)
    with laurels.open(tmp_path / "data", clock=clock) as lb:
        label = play(lb, clock)
        play(lb, clock, "gone")
        lb.delete("gone")
        lb.delete("b")
        if snapshots in ("deleted", "both"):
            lb.snapshot()
        lb.undelete("b", name="other")
        lb.submit("other", "eve", 1)
        if snapshots in ("restored", "both"):
            lb.snapshot()
        before = state(lb, "other", label)
    for _ in range(2):
        with laurels.open(tmp_path / "data", clock=clock) as lb:
            assert state(lb, "other", label) == before
            lb.check()
    assert [each.name for each in before["restorable"]] == ["gone"]


def test_a_board_that_retain_removed_is_folded_again(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    with laurels.open(tmp_path / "data", clock=clock) as lb:
        label = play(lb, clock, ends="2026-11-27T00:00:00Z", retain="1d")
        clock.advance(10 * DAY)
        assert lb.boards() == []
        lb.undelete("b", name="other")
        lb.create(laurels.Board("b"))
        before = state(lb, "other", label)
    with laurels.open(tmp_path / "data", clock=clock) as lb:
        assert state(lb, "other", label) == before
        lb.check()
        lb.rebuild()
        assert state(lb, "other", label) == before


def test_payouts_have_the_name_that_the_log_has(tmp_path: Path) -> None:
    """In a backup, the file of payouts may be newer than the log, and name a board differently."""
    clock = ManualClock(START_MS)
    with laurels.open(tmp_path / "data", clock=clock) as lb:
        play(lb, clock)
        lb.delete("b")
        store = local(lb)
        [removed] = lb.restorable_boards()
        store.payouts.rename(removed.uid, "other")
        with pytest.raises(UnknownBoard):
            lb.payouts("b")
    with laurels.open(tmp_path / "data", clock=clock) as lb:
        assert len(lb.payouts("b")) == 2


def test_a_copy_and_a_restored_board_exclude_each_other() -> None:
    clock = ManualClock(START_MS)
    with laurels.open("memory:", clock=clock) as source, laurels.open("memory:", clock=clock) as to:
        label = play(source, clock)
        copy_board(copies_of(source), copies_of(to), "b")
        to.delete("b")
        copies, origin = copies_of(to), copies_of(source).origin("b")
        copies.begin(origin)
        for name in ("b", "other"):
            with pytest.raises(BoardExists, match=f"unfinished copy has the name .{name}.,"):
                to.undelete("b", name=name)
        copies.give_up("b")
        to.undelete("b", name="other")
        with pytest.raises(NameTaken, match="other"):
            copies.begin(origin)
        to.delete("other")
        copy_board(copies_of(source), copies_of(to), "b")
        assert to.restorable_boards() == []  # the copy takes the place of the removed board
        day = [entry.member for entry in to.top("b", window="day", period=label)]
        assert day == ["ann", "bob", "cid"]


def test_a_board_that_was_moved_away_is_not_restored() -> None:
    clock = ManualClock(START_MS)
    with laurels.open("memory:", clock=clock) as lb:
        play(lb, clock)
        local(lb).write(DeleteBoard("b", is_moved=True))
        assert lb.restorable_boards() == []
        with pytest.raises(NotRestorable):
            lb.undelete("b")
