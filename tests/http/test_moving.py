"""Boards that are moved between the stores of a service while it serves them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

import laurels
from laurels.cli.program import main
from laurels.errors import UnknownBoard
from laurels.errors.placement import BoardMoving, MoveRefused, UnknownStore
from laurels.stores.routed.moving import Mover
from tests.conftest import Scaled
from tests.http.listening import feed
from tests.http.test_placement import ADMIN, Site, keyed, names_in
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY, Served

T = TypeVar("T")

BOARD = laurels.Board(
    "a1",
    columns=[laurels.Column("points", scale=2)],
    windows=["all", "day", "r=rolling:2h/1h"],
    scopes=[[], ["room"]],
    rank_by="room",
    dedupe="1h",
    changes="1h",
)


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with Server() as one, Server() as two:
        yield one, two


@pytest.fixture(autouse=True)
def no_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the old store delete a moved board at once."""
    monkeypatch.setattr(Mover, "linger_seconds", 0.0)


@pytest.fixture
def site(tmp_path: Path, servers: tuple[Server, Server]) -> Iterator[Site]:
    """A service with three stores: number 1 is a folder, numbers 2 and 3 are index servers."""
    with Site(tmp_path, *servers) as site:
        yield site


def move(
    url: str,
    board: str,
    to: int | None,
    *,
    pause_seconds: int = 0,
    headers: Mapping[str, str] = ADMIN,
) -> httpx.Response:
    body = {"to": to, "pause_seconds": pause_seconds} if pause_seconds else {"to": to}
    return httpx.post(f"{url}/v1/boards/{board}/move", json=body, headers=headers, timeout=600)


def move_under_load(url: str, to: int) -> httpx.Response:
    """Move a board. Repeat the call while it fails because the machine is slow, or because the old
    store still has the board. Repeated calls may hold writes for as long as they need: otherwise
    the writers of a busy machine could be faster than the copy for minutes. Return the last
    answer."""
    answer = move(url, "a1", to)
    while "old store" in answer.text or "too long" in answer.text:
        answer = move(url, "a1", to, pause_seconds=60)
    return answer


def everything(lb: laurels.Leaderboards, board: str) -> dict[str, Any]:
    """Return answers that show everything that a board has, without times."""
    return {
        **{
            f"{window} {labels}": [
                (entry.rank, entry.member, entry.score, entry.data)
                for entry in lb.top(board, window=window, labels=labels, with_data=True)
            ]
            for window in ("all", "day", "r")
            for labels in (None, {"room": "1"})
        },
        "rooms": [(each.member, each.score) for each in lb.top(board, by="room")],
        "positions": lb.positions(board),
        "definition": lb.get(board),
        "changes": lb.changes(board, after="now").cursor,
    }


def fill(lb: laurels.Leaderboards, members: int = 50) -> None:
    lb.create(BOARD)
    events = [
        {"member": f"m{i % members}", "value": i, "id": f"e{i}", "labels": {"room": str(i % 3)}}
        for i in range(4 * members)
    ]
    lb.submit_many("a1", events, position=("file", "9"))
    lb.set_data("a1", "m1", {"name": "Ann"})


def test_a_board_keeps_everything_through_every_store(site: Site) -> None:
    fill(site.lb)
    before = everything(site.lb, "a1")
    at = 2
    for to in (1, 3, 2):
        answer = move(site.url, "a1", to)
        while answer.status_code == 503:  # the old store still has the board
            answer = move(site.url, "a1", to)
        assert answer.json()["store"] == to, answer.text
        assert everything(site.lb, "a1") == before
        again = site.lb.submit_many("a1", [{"member": "m0", "value": 1, "id": "e0"}])
        assert [receipt.status for receipt in again] == ["duplicate"]
        assert move(site.url, "a1", to).json()["rows"] == 0
        at = to
    assert at == 2
    assert [entry.verb for entry in site.lb.audit("a1")][:2] == ["move", "move"]
    assert site.lb.check().boards == 1


def test_a_moved_board_is_found_after_a_restart(
    tmp_path: Path, servers: tuple[Server, Server]
) -> None:
    with Site(tmp_path, *servers) as site:
        fill(site.lb)
        assert move(site.url, "a1", 3).json()["store"] == 3
        before = everything(site.lb, "a1")
        stores = site.stores
    with Site(tmp_path, *servers) as site:
        assert everything(site.lb, "a1") == before
        site.lb.submit("a1", "new", 1)
    assert names_in(stores["a*"]) == []
    assert names_in(stores["b*"]) == ["a1"]
    with Site(tmp_path, *servers) as site:
        site.lb.delete("a1")
        site.lb.create(BOARD)
    assert names_in(stores["a*"]) == ["a1"]
    assert names_in(stores["b*"]) == []


def test_a_moved_board_ends_when_it_is_deleted(site: Site) -> None:
    """The move does not end the changes of the board; only the deletion does. The deleted board's
    changes are in the store to which it was moved, and a new board of the same name is in the store
    to which the name points."""
    fill(site.lb)
    assert move(site.url, "a1", 3).json()["store"] == 3
    assert site.lb.deleted_boards() == []
    cursor = site.lb.changes("a1", after="now").cursor
    source = "sink:hook"
    site.lb.submit_many("a1", [], position=(source, cursor))
    site.lb.submit("a1", "ann", 1)
    site.lb.delete("a1")
    fill(site.lb)
    newest = site.lb.changes("a1", after="now").cursor
    (deleted,) = site.lb.deleted_boards(source)
    assert (deleted.name, deleted.position) == ("a1", cursor)
    page = site.lb.changes("a1", after=cursor)
    assert [change.kind for change in page] == ["position", "event", "delete"]
    site.lb.submit_many("a1", [], position=(source, page.cursor, cursor))
    (deleted,) = site.lb.deleted_boards(source)
    assert deleted.position == page.cursor
    assert site.lb.position("a1", source) is None
    site.lb.submit_many("a1", [], position=(source, newest))
    assert site.lb.position("a1", source) == newest


def test_a_store_that_has_moved_boards_stays_in_the_placement(
    tmp_path: Path, servers: tuple[Server, Server]
) -> None:
    with Site(tmp_path, *servers) as site:
        fill(site.lb)
        assert move(site.url, "a1", 3).status_code == 200
        stores = site.stores
    with pytest.raises(UnknownStore, match="was moved to redis://"):
        Served(site.folder, admin_key=ADMIN_KEY, placement={"a*": stores["a*"]})
    with pytest.raises(UnknownStore, match="was moved to redis://"):
        Served(site.folder, admin_key=ADMIN_KEY)


class Writers:
    """Threads that submit events with ids until they are stopped, each for members of its own."""

    def __init__(
        self,
        url: str,
        acknowledged: Sequence[int] = (0, 0, 0),
        labels: dict[str, str] | None = None,
    ) -> None:
        self._url = url
        self._labels = {"labels": labels} if labels else {}
        self._stopped = threading.Event()
        self.acknowledged = [*acknowledged]
        self.longest = 0.0
        self.failures: list[str] = []
        self._threads = [
            threading.Thread(target=self._write, args=(i,)) for i in range(len(acknowledged))
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, own: int) -> None:
        with httpx.Client(base_url=self._url, headers=ADMIN, timeout=60) as client:
            while not self._stopped.is_set():
                number = self.acknowledged[own]
                event = {"member": f"w{own}", "value": 1, "id": f"{own}-{number}"} | self._labels
                try:
                    answer = client.post("/v1/boards/a1/scores", json=event)
                except httpx.HTTPError:
                    return
                self.longest = max(self.longest, answer.elapsed.total_seconds())
                if answer.status_code == 200:
                    self.acknowledged[own] += 1
                elif answer.status_code != 503:
                    self.failures.append(answer.text)

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()


ROOM = {"room": "1"}
BUSY = {
    "plain": laurels.Board("a1", dedupe="1h"),
    "packed": laurels.Board(
        "a1",
        columns=[laurels.Column("points", min=0, max=1_000_000)],
        tie_resolution="1h",
        windows=["all", "day"],
        rank="dense",
        dedupe="1h",
    ),
    "everything": laurels.Board(
        "a1",
        windows=["all", "hour", "r=rolling:7d/1d", "f=decay:1d"],
        scopes=[[], ["room"]],
        rank_by="room",
        dedupe="1h",
        changes="1h",
    ),
    "shards": laurels.Board(
        "a1",
        windows=["all", "r=rolling:7d/1d"],
        scopes=[[], ["room"]],
        rank_by="room",
        shards=3,
        dedupe="1h",
    ),
    "head": laurels.Board("a1", windows=["all", "day"], head=100, dedupe="1h"),
}


@pytest.mark.parametrize("kind", BUSY)
def test_no_event_is_lost_or_counted_twice_while_a_board_moves(
    site: Site, kind: str, scaled: Scaled
) -> None:
    board = BUSY[kind]
    labels = ROOM if board.rules().scoped else None
    site.lb.create(board)
    events = [{"member": f"m{i}", "value": i, "labels": labels} for i in range(1_000)]
    site.lb.submit_many("a1", events)
    writers = Writers(site.url, labels=labels)
    for to in [1, 2, 3, 1, 2][: scaled(3, 5)]:
        answer = move_under_load(site.url, to)
        assert answer.status_code == 200, answer.text
        assert site.lb.top("a1", limit=1).entries[0].member == "m999"
    writers.stop()
    assert not writers.failures
    total = 0
    for window in board.rules().windows:
        for own, count in enumerate(writers.acknowledged):
            standing = site.lb.standing("a1", f"w{own}", window=window)
            score = 0 if standing is None else standing.score
            assert isinstance(score, int | Decimal)
            assert score == count or (window == "f" and count - 1 < score <= count)
        total = 1_000 + sum(map(bool, writers.acknowledged))
        assert site.lb.stats("a1").windows[0].members == total
    for scope in site.lb.scopes("a1", "room") if labels else ():
        assert site.lb.top("a1", labels=scope).total == total
    if board.rules().rank_by:
        (room,) = site.lb.top("a1", by="room").entries
        assert room.score == 499_500 + sum(writers.acknowledged)
    site.lb.check()


def test_events_of_other_processes_are_not_lost_while_a_board_moves(site: Site) -> None:
    """Another process that writes to the index server itself is refused in the last moment of the
    move, and later finds that the board is gone."""
    site.lb.create(laurels.Board("a1", dedupe="1h"))
    site.lb.submit_many("a1", [(f"m{i}", i) for i in range(3_000)])
    acknowledged, refused = 0, list[str]()
    begun = threading.Event()

    def write() -> None:
        nonlocal acknowledged
        with laurels.open(site.stores["a*"]) as lb:
            while "unknown_board" not in refused:
                try:
                    lb.submit("a1", "other", 1)
                except (BoardMoving, UnknownBoard) as error:
                    refused.append(error.code)
                else:
                    acknowledged += 1
                begun.set()

    other = threading.Thread(target=write)
    other.start()
    writers = Writers(site.url)
    assert begun.wait(60)
    assert move_under_load(site.url, 3).status_code == 200
    other.join()
    writers.stop()
    assert not writers.failures
    counts = {f"w{own}": count for own, count in enumerate(writers.acknowledged)}
    for member, count in ({"other": acknowledged} | counts).items():
        standing = site.lb.standing("a1", member)
        assert standing is not None
        assert standing.score == count


def test_a_move_that_is_refused_changes_nothing(site: Site, tmp_path: Path) -> None:
    fill(site.lb)
    before = everything(site.lb, "a1")
    assert move(site.url, "a1", 4).json()["code"] == "unknown_store"
    assert move(site.url, "none", 3).json()["code"] == "unknown_board"
    for wrong in (0, -1, "x", 1.5):
        answer = httpx.post(
            f"{site.url}/v1/boards/a1/move", json={"to": wrong}, headers=ADMIN, timeout=60
        )
        assert answer.json()["code"] == "invalid_body"
    with laurels.open(site.stores["b*"]) as lb:
        lb.create(laurels.Board("a1"))
    assert move(site.url, "a1", 3).json()["code"] == "name_taken"
    assert everything(site.lb, "a1") == before
    key = {"name": "some", "scope": "admin", "boards": ["a*"]}
    made = httpx.post(f"{site.url}/v1/keys", json=key, headers=ADMIN).json()["key"]
    limited = {"authorization": f"Bearer {made}"}
    assert move(site.url, "a1", 1, headers=limited).json()["code"] == "forbidden"
    assert httpx.get(f"{site.url}/v1/stores", headers=limited).status_code == 403
    stores = site.get("/v1/stores").json()
    assert [each["store"] for each in stores] == [1, 2, 3]
    with Served(tmp_path / "single", admin_key=ADMIN_KEY) as served:
        assert move(served.url, "a1", 1).json()["code"] == MoveRefused.code
        assert httpx.get(f"{served.url}/v1/stores", headers=ADMIN).json() == []


def test_a_sink_that_has_not_sent_everything_prevents_a_move(site: Site) -> None:
    fill(site.lb)
    site.lb.submit_many("a1", [], position=("sink:s", site.lb.changes("a1", after="now").cursor))
    site.lb.submit("a1", "ann", 1)
    assert move(site.url, "a1", 3).json()["code"] == BoardMoving.code
    end = site.lb.changes("a1", after="now").cursor
    before = site.lb.position("a1", "sink:s")
    site.lb.submit_many("a1", [], position=("sink:s", end, before))
    assert move(site.url, "a1", 3).status_code == 200
    site.lb.submit("a1", "bob", 1)
    page = site.lb.changes("a1", after=site.lb.position("a1", "sink:s"))
    assert [change.member for change in page if change.member] == ["bob"]


# Kills


def test_the_command_moves_a_board(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    fill(site.lb)
    assert main(["move", "a1", "--to", "3", "--at", keyed(site.url)]) == 0
    assert capsys.readouterr().out.startswith("moved a1 to store 3: ")
    assert main(["move", "a1", "--to", "3", "--at", keyed(site.url), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "board": "a1",
        "store": 3,
        "rows": 0,
        "held_ms": 0,
    }
    assert main(["move", "a1", "--to", "9", "--at", keyed(site.url)]) == 2
    assert "unknown_store" in capsys.readouterr().err
    assert main(["move", "a1", "--to", "1", "--at", str(site.folder)]) == 2
    assert "http://" in capsys.readouterr().err


def test_feeds_and_streams_of_changes_continue_after_a_move(site: Site) -> None:
    fill(site.lb)

    async def main() -> None:
        async with (
            feed(site.url, "/v1/boards/a1/live?interval=20&limit=1", key=ADMIN_KEY) as live,
            feed(site.url, "/v1/boards/a1/changes/live?after=now", key=ADMIN_KEY) as changes,
        ):
            assert (await live.next()).kind == "top"
            for member, to in (("ann", 1), ("bob", 3)):
                answer = await asyncio.to_thread(move, site.url, "a1", to)
                while answer.status_code == 503:
                    answer = await asyncio.to_thread(move, site.url, "a1", to)
                assert answer.json()["store"] == to
                await asyncio.to_thread(site.lb.submit, "a1", member, 9_000 * to)
                while (await live.next()).document["order"] != [member]:
                    pass
                page = (await changes.next()).document["changes"]
                assert [change["member"] for change in page if change["member"]] == [member]

    asyncio.run(main())
