"""Boards with sealed periods and payouts are moved between the stores of a service, while payouts
are confirmed and sinks read them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

import laurels
from laurels.errors.placement import BoardMoving
from laurels.stores.routed.moving import Mover
from tests.copying.seasons import (
    ARCHIVED,
    DAY,
    SEASONS,
    START_MS,
    archive,
    payouts,
    play_archive,
    play_seasons,
    seasons,
)
from tests.http.test_placement import ADMIN
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY, Served

BOARD = replace(SEASONS, name="a1")


@pytest.fixture(autouse=True)
def no_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the old store delete a moved board at once."""
    monkeypatch.setattr(Mover, "linger_seconds", 0.0)


@pytest.fixture
def clock() -> laurels.ManualClock:
    return laurels.ManualClock(START_MS)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(params=["folders", "index-server", "one-ledger"])
def stores(request: pytest.FixtureRequest) -> tuple[int, int]:
    """The numbers of two stores between which the board is moved: two folders, a folder and an
    index server, or two index servers that have one ledger."""
    return {"folders": (1, 2), "index-server": (1, 3), "one-ledger": (3, 4)}[request.param]


@pytest.fixture
def served(
    tmp_path: Path,
    clock: laurels.ManualClock,
    server: Server,
    stores: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Served]:
    """A service with two folders and two index servers."""
    monkeypatch.setenv("LAURELS_LEDGER_MAIN", f"sqlite:////{tmp_path}/ledger.db")
    server.call("FLUSHALL")
    placement = {"second*": str(tmp_path / "second")}
    if 3 in stores:
        placement |= {f"{name}*": f"{server.url}?prefix={name}:" for name in ("third", "fourth")}
    served = Served(tmp_path / "first", clock, admin_key=ADMIN_KEY, placement=placement)
    yield served
    served.close()


@pytest.fixture
def lb(served: Served) -> Iterator[laurels.Leaderboards]:
    with laurels.open(served.url.replace("//", f"//{ADMIN_KEY}@")) as lb:
        yield lb


def move(served: Served, to: int) -> dict[str, Any]:
    """Move the board. Repeat the call while the old store still has the board."""
    while True:
        answer = httpx.post(
            f"{served.url}/v1/boards/a1/move", json={"to": to}, headers=ADMIN, timeout=600
        )
        if answer.status_code != 503:
            assert answer.status_code == 200, answer.text
            moved: dict[str, Any] = answer.json()
            return moved


def test_a_moved_board_has_its_archive_and_payouts(
    served: Served, lb: laurels.Leaderboards, clock: laurels.ManualClock, stores: tuple[int, int]
) -> None:
    play_seasons(lb, clock, BOARD)
    before = seasons(lb, "a1")
    for to in (*reversed(stores), *reversed(stores)):
        assert move(served, to)["store"] == to
        assert seasons(lb, "a1") == before
        assert lb.check().boards == 1
    lb.submit("a1", "m1", 40, labels={"room": "1"})
    clock.advance(2 * DAY)
    lb.seal()
    owed = payouts(lb, "a1")
    assert len({each.id for each in owed}) == len(owed)
    assert len(owed) > len(before["payouts"])


def listed_from(lb: laurels.Leaderboards, cursor: str | None) -> tuple[list[str], str | None]:
    """Return the ids of the due payouts after a cursor, and the last cursor."""
    ids: list[str] = []
    while page := lb.due_payouts(after=cursor):
        ids += [each.id for each in page]
        cursor = page.cursor
    return ids, cursor


def test_payouts_confirmed_during_moves_stay_confirmed_and_all_due_ones_are_listed(
    served: Served, lb: laurels.Leaderboards, clock: laurels.ManualClock, stores: tuple[int, int]
) -> None:
    play_seasons(lb, clock, BOARD)
    clock.advance(DAY)
    lb.seal()  # also enters the payouts that are due in their list
    open_ones = [each.id for each in payouts(lb, "a1") if each.state == "due"]
    assert len(open_ones) > 20
    confirmed: dict[str, str] = {}
    seen, cursor = listed_from(lb, None)
    stop = threading.Event()

    def confirm() -> None:
        for number, payout in enumerate(open_ones):
            while True:
                try:
                    confirmed[payout] = lb.confirm("a1", payout, f"bank {number}").reference or ""
                    break
                except BoardMoving:
                    continue
        stop.set()

    thread = threading.Thread(target=confirm)
    thread.start()
    to, moves = stores[1], 0
    while not stop.is_set() or moves < 2:
        move(served, to)
        to, moves = sum(stores) - to, moves + 1
    thread.join()
    found = {each.id: each.reference for each in payouts(lb, "a1")}
    assert {id: found[id] for id in open_ones} == confirmed
    assert len(confirmed) == len(open_ones)
    lb.submit("a1", "m1", 40, labels={"room": "1"})
    clock.advance(2 * DAY)
    lb.seal()
    clock.advance(3_600_000)
    lb.seal()  # also enters the payouts that are due in their list
    more, cursor = listed_from(lb, cursor)
    due = {each.id for each in payouts(lb, "a1") if each.state in ("due", "confirmed")}
    assert due <= {*seen, *more}
    move(served, to)
    assert listed_from(lb, cursor)[0] is not None  # the cursor stays valid


def test_an_archive_moves_to_an_index_server_and_back_under_writes(
    tmp_path: Path, clock: laurels.ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAURELS_LEDGER_MAIN", f"sqlite:////{tmp_path}/ledger.db")
    with Server() as server:
        placement = {"second*": server.url}
        served = Served(tmp_path / "first", clock, admin_key=ADMIN_KEY, placement=placement)
        try:
            with laurels.open(served.url.replace("//", f"//{ADMIN_KEY}@")) as lb:
                _move_under_writes(served, lb, clock)
        finally:
            served.close()


def _move_under_writes(
    served: Served, lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    play_archive(lb, clock, replace(ARCHIVED, name="a1"))
    before = archive(lb, "a1")
    stop, written = threading.Event(), 0

    def write() -> None:
        nonlocal written
        while not stop.is_set():
            with suppress(BoardMoving):
                lb.submit("a1", "writer", 1, labels={"room": "1"})
                written += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for to in (2, 1, 2, 1):
            assert move(served, to)["store"] == to
            assert archive(lb, "a1") == before
    finally:
        stop.set()
        thread.join()
    standing = lb.standing("a1", "writer", window="all")
    assert standing is not None
    assert standing.score == written
    lb.check()
    clock.advance(2 * DAY)
    lb.seal()
    periods = [(each.window, each.period) for each in lb.archived("a1")]
    assert len({*periods}) == len(periods) == len(before["archived"]) + 2
