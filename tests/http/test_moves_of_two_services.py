"""Two services with the same index servers: only one of them moves a board at a time, and neither
ends what the other has begun."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels.errors.placement import BoardMoving, MoveRefused
from laurels.stores.redis.tracking import TrackedServerBoard
from laurels.stores.routed.moving import Mover
from tests.http.test_moving import BOARD, fill, move
from tests.http.test_placement import Site
from tests.redis.servers import Server


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with Server() as one, Server() as two:
        yield one, two


@pytest.fixture(autouse=True)
def no_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mover, "linger_seconds", 0.0)


@pytest.fixture
def sites(tmp_path: Path, servers: tuple[Server, Server]) -> Iterator[tuple[Site, Site]]:
    """Two services with default stores of their own, and the same index servers."""
    with (
        Site(tmp_path / "one" / tmp_path.name, *servers) as one,
        Site(tmp_path / "two" / tmp_path.name, *servers) as two,
    ):
        yield one, two


def during(monkeypatch: pytest.MonkeyPatch, step: str, check: Callable[[], None]) -> None:
    """Call `check` before the first call of a method of a mover."""
    original: Any = getattr(Mover, step)
    is_first = [True]

    def checked(*arguments: Any) -> Any:
        if is_first.pop() if is_first else False:
            check()
        return original(*arguments)

    monkeypatch.setattr(Mover, step, checked)


def member_count(lb: laurels.Leaderboards) -> int:
    return lb.top("a1", limit=1).total


def test_a_second_service_does_not_lift_the_fence_of_the_first(
    sites: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the first service switches the board, the move of the second one is refused, and the
    board still accepts neither events nor another definition."""
    one, two = sites
    fill(one.lb)
    refused: list[str] = []

    def check() -> None:
        for to in (3, 1):
            refused.append(move(two.url, "a1", to).json()["code"])
        with laurels.open(one.stores["a*"]) as lb:
            calls: list[Callable[[], object]] = [
                lambda: lb.submit("a1", "ann", 1),
                lambda: lb.change("a1", title="another"),
                lambda: lb.delete("a1"),
            ]
            for call in calls:
                with pytest.raises(BoardMoving):
                    call()

    during(monkeypatch, "_switch", check)
    before = one.lb.get("a1")
    assert move(one.url, "a1", 3).status_code == 200
    assert refused == [BoardMoving.code] * 2
    assert one.lb.get("a1") == before
    assert member_count(one.lb) == 50
    one.lb.submit("a1", "ann", 1)
    assert one.lb.change("a1", title="another").title == "another"


def test_a_second_service_does_not_disturb_a_copy(
    sites: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A move that is refused does not end the tracking of the other move, and does not remove its
    unfinished copy."""
    one, two = sites
    fill(one.lb)
    refused: list[str] = []

    def check() -> None:
        refused.append(move(two.url, "a1", 3).json()["code"])
        one.lb.submit_many("a1", [("late", 1)])

    during(monkeypatch, "_complete", lambda: None)
    original: Any = Mover._copy_in_rounds

    def copied(*arguments: Any) -> Any:
        done = original(*arguments)
        check()
        return done

    monkeypatch.setattr(Mover, "_copy_in_rounds", copied)
    assert move(one.url, "a1", 3).status_code == 200
    assert refused == [BoardMoving.code]
    assert one.lb.standing("a1", "late") is not None
    assert member_count(one.lb) == 51


def test_the_fence_of_a_killed_service_is_lifted_by_its_own_restart_only(
    tmp_path: Path, servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise MoveRefused("killed")

    folder = tmp_path / "one" / tmp_path.name
    with Site(folder, *servers) as one, monkeypatch.context() as patch:
        fill(one.lb)
        patch.setattr(Mover, "_switch", killed)
        patch.setattr(Mover, "_give_up", lambda *_: None)
        patch.setattr(TrackedServerBoard, "end", lambda _: None)
        assert move(one.url, "a1", 3).json()["code"] == MoveRefused.code
        store = one.stores["a*"]
    with Site(tmp_path / "two" / tmp_path.name, *servers) as two:
        assert move(two.url, "a1", 3).json()["code"] == BoardMoving.code
        with laurels.open(store) as lb, pytest.raises(BoardMoving):
            lb.submit("a1", "m1", 1)
    with laurels.open(store) as lb, pytest.raises(BoardMoving):
        lb.change("a1", title="another")
    with Site(folder, *servers) as one:
        one.lb.submit("a1", "m1", 1)
        assert one.lb.change("a1", title="another").title == "another"
        assert move(one.url, "a1", 3).status_code == 200


def test_of_two_services_that_move_a_board_at_once_one_is_refused(
    sites: tuple[Site, Site],
) -> None:
    one, two = sites
    fill(one.lb)
    for _ in range(5):
        with ThreadPoolExecutor(2) as threads:
            codes = list(
                threads.map(lambda url: move(url, "a1", 3).status_code, [one.url, two.url])
            )
        assert codes.count(200) <= 1
        with laurels.open(one.stores["b*" if 200 in codes else "a*"]) as lb:
            assert lb.get("a1") == BOARD
            assert member_count(lb) == 50
            lb.submit("a1", "m1", 1)
        if 200 in codes:
            break
