"""A member that is hidden on all boards is left out everywhere at once. The boards record the
hiding in shares of due work, and each board records it before anything else that happens to the
board."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.internals import local

import laurels
from laurels.core.hiding_boards import TAKE_UP_WORK
from laurels.stores.intake.shares import SHARE
from laurels.stores.local.committing import LocalCommits
from laurels.stores.local.store import Service

COUNT = 60
NAMES = [f"b{number}" for number in range(COUNT)]


@pytest.fixture
def nothing_taken_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Boards record the hiding only when they are used, as if the process had been killed right
    after the hiding was written to the log."""
    with monkeypatch.context() as patch:
        patch.setattr(LocalCommits, "take_up", lambda _: None)
        patch.setattr(Service, "work_share", lambda *_: 0)
        yield


def fill(lb: laurels.Leaderboards) -> None:
    for name in NAMES:
        lb.create(laurels.Board(name, changes="1h"))
        lb.submit_many(name, [("ann", 2), ("bob", 1)])


def kinds(lb: laurels.Leaderboards, board: str) -> list[tuple[str, str | None]]:
    return [(change.kind, change.member) for change in lb.changes(board)]


EXPECTED = [("create", None), ("event", "ann"), ("event", "bob"), ("hide", "ann")]


def fold_of(lb: laurels.Leaderboards) -> Any:
    store: Any = local(lb)
    return store._fold


def test_no_share_visits_many_boards() -> None:
    with laurels.open("memory:") as lb:
        fill(lb)
        fold = fold_of(lb)
        costs: list[int] = []
        original = fold.take_up_share

        def share(limit: int) -> int:
            costs.append(original(limit))
            return costs[-1]

        fold.take_up_share = share
        lb.hide(None, "ann", "reason")
        assert len(costs) >= COUNT * TAKE_UP_WORK / (SHARE + TAKE_UP_WORK)
        assert max(costs) <= SHARE + TAKE_UP_WORK
        assert not fold.has_untaken
        assert [kinds(lb, name) for name in NAMES] == [EXPECTED] * COUNT


@pytest.mark.usefixtures("nothing_taken_up")
def test_a_board_records_the_hiding_before_anything_else() -> None:
    with laurels.open("memory:") as lb:
        fill(lb)
        lb.rank("b1", "ann")
        lb.hide(None, "ann", "reason")
        assert fold_of(lb).has_untaken
        assert (lb.rank("b1", "ann"), lb.rank("b1", "bob")) == (None, 1)
        assert kinds(lb, "b1") == EXPECTED
        lb.submit("b2", "bob", 1)
        lb.set_data("b3", "bob", {"x": 1})
        lb.change("b4", title="another")
        lb.show(None, "ann")
        lb.hide("b5", "ann", "another reason")
        shown = [*EXPECTED, ("show", "ann")]
        assert kinds(lb, "b1") == shown
        assert kinds(lb, "b2") == [*EXPECTED, ("event", "bob"), ("show", "ann")]
        assert kinds(lb, "b3") == [*EXPECTED, ("data", "bob"), ("show", "ann")]
        assert kinds(lb, "b4") == [*EXPECTED, ("change", None), ("show", "ann")]
        assert kinds(lb, "b5") == [*shown, ("hide", "ann")]
        lb.create(laurels.Board("new", changes="1h"))
        assert kinds(lb, "new") == [("create", None)]
        lb.check()
        assert [kinds(lb, name) for name in NAMES[6:]] == [shown] * (COUNT - 6)


@pytest.mark.usefixtures("nothing_taken_up")
@pytest.mark.parametrize("place", ["memory:", "folder"])
def test_a_rebuild_before_the_boards_recorded_it_leaves_no_gap(place: str, tmp_path: Path) -> None:
    with laurels.open(place if place == "memory:" else tmp_path / place) as lb:
        fill(lb)
        lb.hide(None, "ann", "reason")
        assert fold_of(lb).has_untaken
        lb.rebuild()
        lb.submit("b1", "bob", 1)
        assert kinds(lb, "b1") == [*EXPECTED, ("event", "bob")]
        assert [kinds(lb, name) for name in NAMES[2:]] == [EXPECTED] * (COUNT - 2)


@pytest.mark.usefixtures("nothing_taken_up")
def test_a_board_of_which_the_hiding_is_not_recorded_may_be_deleted_or_erased_from() -> None:
    with laurels.open("memory:") as lb:
        fill(lb)
        lb.hide(None, "ann", "reason")
        cursor = lb.changes("b1").cursor
        lb.delete("b2")
        lb.erase("ann", "asked for it")
        assert [change.kind for change in lb.changes("b1", after=cursor)] == ["erase"]
        assert [each[0] for each in kinds(lb, "b3")][-2:] == ["hide", "erase"]
        lb.check()


def test_a_kill_or_a_snapshot_before_the_boards_recorded_it_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        with laurels.open(tmp_path / str(number)) as lb, monkeypatch.context() as patch:
            fill(lb)
            if number:
                patch.setattr(LocalCommits, "take_up", lambda _: None)
            lb.hide(None, "ann", "reason")
            if number == 2:
                lb.snapshot()
            lb.submit("b1", "bob", 1)
        with laurels.open(tmp_path / str(number)) as lb:
            assert not fold_of(lb).has_untaken
            assert kinds(lb, "b1") == [*EXPECTED, ("event", "bob")]
            assert [kinds(lb, name) for name in NAMES[2:]] == [EXPECTED] * (COUNT - 2)
            lb.check()
