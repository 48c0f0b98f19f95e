"""Moves of a service that is killed, at any moment, lose nothing and leave boards that can be
written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import httpx
import pytest

import laurels
from laurels.errors.index_server import IndexUnavailable
from laurels.errors.placement import BoardMoving, MoveRefused
from laurels.stores.redis.tracking import TrackedServerBoard
from laurels.stores.routed.moving import Mover
from tests.conftest import Scaled
from tests.http.process import Process
from tests.http.test_moving import ROOM, T, Writers, fill, move, no_linger, servers
from tests.http.test_placement import ADMIN, Site, keyed, names_in
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY

__all__ = ["no_linger", "servers"]


def test_a_board_is_written_again_after_a_kill_while_its_writes_were_blocked(
    tmp_path: Path, servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The move ends as if the process had been killed right before the switch."""

    def killed(*_: object) -> None:
        raise MoveRefused("killed")

    with Site(tmp_path, *servers) as site, monkeypatch.context() as patch:
        fill(site.lb)
        patch.setattr(Mover, "_switch", killed)
        patch.setattr(Mover, "_give_up", lambda *_: None)
        patch.setattr(TrackedServerBoard, "end", lambda _: None)
        assert move(site.url, "a1", 3).json()["code"] == MoveRefused.code
        with pytest.raises(BoardMoving):
            site.lb.submit("a1", "m1", 1)
        store = site.stores["a*"]
    with laurels.open(store) as lb, pytest.raises(BoardMoving):
        lb.submit("a1", "m1", 1)
    with Site(tmp_path, *servers) as site:
        site.lb.submit("a1", "m1", 1)
        assert move(site.url, "a1", 3).status_code == 200


class KilledBoard(NamedTuple):
    """A board that is moved by services which are killed, and its first events."""

    board: laurels.Board
    members: int
    scopes: list[dict[str, str] | None]

    @property
    def labels(self) -> dict[str, str] | None:
        """The labels of all events."""
        return self.scopes[-1]

    def create(self, lb: laurels.Leaderboards) -> None:
        """Create the board. Its first members have higher scores than the writers ever reach."""
        lb.create(self.board)
        labels = {} if self.labels is None else {"labels": self.labels}
        events = [
            {"member": f"m{i}", "value": 1_000_000 + i, "id": f"m{i}", **labels}
            for i in range(self.members)
        ]
        for first in range(0, self.members, 500):
            patiently(partial(lb.submit_many, "a1", events[first : first + 500]))

    def ensure_counted(self, lb: laurels.Leaderboards, counted: Sequence[int]) -> None:
        """Assert that the board has its first members, and that all windows have the acknowledged
        events of each writer. The last event of a writer may have counted without being
        acknowledged."""
        assert patiently(partial(lb.top, "a1", limit=1))[0].member == f"m{self.members - 1}"
        for own, count in enumerate(counted):
            standings = [
                patiently(partial(lb.standing, "a1", f"w{own}", window=window, labels=labels))
                for window in self.board.rules().windows
                for labels in self.scopes
            ]
            scores = {0 if each is None else each.score for each in standings}
            assert scores in ({count}, {count + 1})


KILLED = {
    "windows": KilledBoard(
        laurels.Board("a1", windows=["all", "r=rolling:7d/1d"], scopes=[[], ["room"]], dedupe="1h"),
        2_000,
        [None, ROOM],
    ),
    # with so many members the head is trimmed, and the others have a grid
    "head": KilledBoard(
        laurels.Board("a1", windows=["all", "year"], head=100, dedupe="1h"), 12_000, [None]
    ),
}


def config_of(folder: Path, one: Server, two: Server) -> Path:
    file = folder / "laurels.toml"
    prefix = f"?prefix={folder.name}:"
    file.write_text(f'[placement]\n"a*" = "{one.url}{prefix}"\n"b*" = "{two.url}{prefix}"\n')
    return file


@pytest.mark.parametrize("kind", KILLED)
def test_a_kill_at_any_moment_of_a_move_loses_nothing(
    tmp_path: Path, servers: tuple[Server, Server], scaled: Scaled, kind: str
) -> None:
    killed = KILLED[kind]
    file = config_of(tmp_path, *servers)
    random = Random(20_261_128)
    prefix = f"?prefix={tmp_path.name}:"
    stores = [str(tmp_path / "boards"), *[f"{each.url}{prefix}" for each in servers]]
    counted, interrupted = [0, 0, 0], 0

    def serve() -> Process:
        variables: dict[str, Any] = {"LAURELS_ADMIN_KEY": ADMIN_KEY}
        return Process(tmp_path / "boards", "--config", str(file), keys=True, **variables)

    with serve() as server, laurels.open(keyed(server.url)) as lb:
        killed.create(lb)
        server.end()
    for _ in range(scaled(3, 200)):
        with serve() as server:
            writers = Writers(server.url, counted, labels=killed.labels)
            answered = threading.Event()
            to = random.randint(1, 3)
            moving = threading.Thread(target=moved, args=(server.url, to, answered))
            moving.start()
            reading(server.url, random.randrange(200), answered)
            server.kill()
            interrupted += not answered.is_set()
            moving.join()
            writers.stop()
            assert not writers.failures
            counted = writers.acknowledged
        with serve() as server, laurels.open(keyed(server.url)) as lb:
            killed.ensure_counted(lb, counted)
            patiently(lb.check)
            server.end()
        assert [names_in(store) for store in stores].count(["a1"]) == 1
    assert interrupted


def patiently(call: Callable[[], T]) -> T:
    """Return the result of a call. Repeat the call if an index server does not answer in time,
    which happens on a busy machine."""
    for _ in range(30):
        with suppress(IndexUnavailable):
            return call()
    return call()


def moved(url: str, to: int, answered: threading.Event) -> None:
    try:
        move(url, "a1", to)
    except httpx.HTTPError:
        return
    answered.set()


def reading(url: str, count: int, is_over: threading.Event) -> None:
    """Send some requests one after the other. Each takes a few milliseconds. On a busy machine an
    index server may not answer in time."""
    with closing(httpx.Client(base_url=url, headers=ADMIN, timeout=60)) as client:
        for _ in range(count):
            answer = client.get("/v1/boards/a1/top?limit=1")
            assert answer.is_success or answer.json()["code"] == "index_unavailable", answer.text
            if is_over.is_set():
                return
