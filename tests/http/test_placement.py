"""A service whose boards are in several stores: two index servers and a folder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from structlog.testing import capture_logs

import laurels
from laurels import errors
from laurels.errors.placement import BoardElsewhere
from laurels.errors.service import InvalidSettings
from laurels.flows.sinks.configured import SinkSettings
from laurels.server.auth.opening import ensure_possible
from laurels.server.process import workers
from laurels.server.process.settings import Settings, settings_of, table
from tests.http.listening import feed
from tests.redis.servers import Server, until
from tests.serving import ADMIN_KEY, JSON, Served

ADMIN = {"authorization": f"Bearer {ADMIN_KEY}"}


def keyed(url: str) -> str:
    return url.replace("//", f"//{ADMIN_KEY}@")


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with Server() as one, Server() as two:
        yield one, two


class Site:
    """A service with boards `a…` on one index server, `b…` on another, and the others in a
    folder."""

    def __init__(self, folder: Path, one: Server, two: Server, **settings: Any) -> None:
        prefix = f"?prefix={folder.name}:"
        self.stores = {"a*": one.url + prefix, "b*": two.url + prefix}
        self.folder = folder / "boards"
        self.served = Served(self.folder, admin_key=ADMIN_KEY, placement=self.stores, **settings)
        self.url = self.served.url
        self.lb = laurels.open(keyed(self.url))

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers=ADMIN, timeout=60)

    def close(self) -> None:
        self.lb.close()
        self.served.close()

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def site(tmp_path: Path, servers: tuple[Server, Server]) -> Iterator[Site]:
    with Site(tmp_path, *servers) as site:
        yield site


def fill(lb: laurels.Leaderboards, *names: str) -> None:
    for name in names:
        lb.create(laurels.Board(name, changes="1h"))
        lb.submit(name, "ann", 1)


def names_in(url: str | Path) -> list[str]:
    with laurels.open(url) as lb:
        return [board.name for board in lb.boards()]


def test_a_board_is_in_the_store_of_the_first_pattern_that_matches(
    tmp_path: Path, servers: tuple[Server, Server]
) -> None:
    with Site(tmp_path, *servers) as site:
        fill(site.lb, "a1", "b1", "c1")
        assert [board.name for board in site.lb.boards()] == ["a1", "b1", "c1"]
        for name in ("a1", "b1", "c1"):
            assert site.lb.rank(name, "ann") == 1
            assert site.lb.get(name).name == name
    assert names_in(site.stores["a*"]) == ["a1"]
    assert names_in(site.stores["b*"]) == ["b1"]
    assert names_in(site.folder) == ["c1"]


def test_calls_about_all_boards_go_to_every_store(site: Site) -> None:
    fill(site.lb, "a1", "b1", "b2", "c1")
    report = site.lb.check()
    assert (report.boards, report.entries) == (4, 4)
    assert site.lb.stats().boards == 4
    site.lb.rebuild()
    assert site.lb.snapshot() > 0
    assert [entry.verb for entry in site.lb.audit("a1")] == ["create"]
    samples = site.get("/metrics").text
    assert "laurels_boards 4.0" in samples
    assert samples.count("laurels_store_up{") == 3
    assert site.get("/readyz").text == "ready\n"


def test_changed_boards_are_found_in_every_store(site: Site) -> None:
    fill(site.lb, "a1", "b1", "c1")
    cursor = site.lb.changed_boards(None).cursor
    assert site.lb.changed_boards(cursor).boards == []
    site.lb.submit("b1", "bob", 2)
    site.lb.submit("c1", "bob", 2)
    changed = site.lb.changed_boards(cursor)
    assert sorted(changed.boards or ()) == ["b1", "c1"]
    assert site.lb.changed_boards(changed.cursor).boards == []
    assert site.lb.changed_boards("12").boards is None  # this is the cursor of a single store
    for wrong in ("x", "1~x", "", "~~"):
        with pytest.raises(errors.InvalidCursor):
            site.lb.changed_boards(wrong)


def test_a_key_limited_to_some_boards_sees_nothing_of_other_stores(site: Site) -> None:
    fill(site.lb, "a1", "b1", "c1")
    wanted = {"name": "some", "scope": "admin", "boards": ["b*"]}
    made = httpx.post(f"{site.url}/v1/keys", json=wanted, headers=ADMIN).raise_for_status()
    with laurels.open(site.url.replace("//", f"//{made.json()['key']}@")) as lb:
        assert [board.name for board in lb.boards()] == ["b1"]
        assert lb.rank("b1", "ann") == 1
        cursor = lb.changed_boards(None).cursor
        for name in ("a1", "b1", "c1"):
            site.lb.submit(name, "bob", 2)
        assert lb.changed_boards(cursor).boards == ["b1"]
        for refused in (lb.stats, lb.check, lb.snapshot, lambda: lb.rank("a1", "ann")):
            with pytest.raises(errors.LaurelsError) as error:
                refused()
            assert error.value.code == "forbidden"
    headers = {"authorization": f"Bearer {made.json()['key']}"}
    samples = httpx.get(f"{site.url}/metrics", headers=headers).text
    assert "laurels_store_up" not in samples
    assert "redis" not in samples
    assert 'board="a1"' not in samples
    assert 'board="c1"' not in samples


def test_feeds_show_boards_of_every_store(site: Site) -> None:
    fill(site.lb, "a1", "b1", "c1")

    async def main() -> None:
        for name in ("a1", "b1", "c1"):
            path = f"/v1/boards/{name}/live?interval=20"
            async with feed(site.url, path, key=ADMIN_KEY) as read:
                assert (await read.next()).kind == "top"
                await asyncio.to_thread(site.lb.submit, name, "bob", 2)
                frame = await read.next()
                assert frame.document["entered"][0]["member"] == "bob"

    asyncio.run(main())


def test_a_sink_sends_the_changes_of_all_stores(
    tmp_path: Path, servers: tuple[Server, Server]
) -> None:
    path = tmp_path / "changes.jsonl"
    sinks = {"lines": SinkSettings(to=str(path))}
    with Site(tmp_path, *servers, sinks=sinks) as site:
        fill(site.lb, "a1", "b1", "c1")

        def sent() -> set[str]:
            lines = path.read_bytes().splitlines() if path.exists() else []
            changes = [msgspec.json.decode(line) for line in lines]
            return {change["board"] for change in changes if change["member"] == "ann"}

        until(lambda: sent() == {"a1", "b1", "c1"}, "the changes of all boards are sent")


def test_a_connection_sees_its_own_writes_on_boards_with_answers_from_memory(site: Site) -> None:
    for name in ("a1", "b1"):
        site.lb.create(laurels.Board(name, max_age="1h"))
        site.lb.submit(name, "ann", 1)
    with httpx.Client(base_url=site.url, headers={**ADMIN, **JSON}) as client:
        for _ in range(50):  # each request takes a while at the index server
            client.get("/v1/boards/a1/standings?members=ann")
            client.get("/v1/boards/b1/top?limit=1").raise_for_status()
        for name in ("a1", "b1"):
            for score in range(2, 6):
                client.get(f"/v1/boards/{name}/top").raise_for_status()
                event = {"member": "ann", "value": 1}
                client.post(f"/v1/boards/{name}/scores", json=event).raise_for_status()
                top = client.get(f"/v1/boards/{name}/top").json()
                assert top["entries"][0]["score"] == score


@pytest.mark.parametrize("how", ["dead", "hung"])
def test_a_store_that_is_down_stops_only_its_own_boards(tmp_path: Path, how: str) -> None:
    with Server() as one, Server() as two, Site(tmp_path, one, two) as site:
        fill(site.lb, "a1", "b1", "c1")

        async def main() -> None:
            path = "/v1/boards/c1/live?interval=20"
            own = "/v1/boards/b1/live?interval=20"
            async with (
                feed(site.url, path, key=ADMIN_KEY) as read,
                feed(site.url, own, key=ADMIN_KEY) as waiting,
            ):
                await read.next()
                await waiting.next()
                await asyncio.to_thread(two.kill if how == "dead" else two.pause)
                await asyncio.to_thread(without_b)
                while (await read.next()).document["order"][0] != "bob":
                    pass
                await asyncio.to_thread(two.start if how == "dead" else two.resume)
                await asyncio.to_thread(with_b)
                assert (await waiting.next()).document["entered"][0]["member"] == "bob"

        def without_b() -> None:
            until(lambda: "store 3 of 3" in site.get("/readyz").text, "the service notices")
            assert site.get("/readyz").status_code == 200
            top = httpx.get(f"{site.url}/v1/boards/b1/top", headers=ADMIN)
            assert (top.status_code, top.json()["code"]) == (503, "index_unavailable")
            for name in ("a1", "c1"):
                assert site.lb.submit(name, "bob", 2).rank == 1
                assert site.lb.top(name).entries[0].member == "bob"
            assert [board.name for board in site.lb.boards()] == ["a1", "b1", "c1"]
            cursor = site.lb.changed_boards(None).cursor
            site.lb.submit("a1", "cid", 1)
            assert site.lb.changed_boards(cursor).boards == ["a1"]
            assert "} 0.0" in site.get("/metrics").text.partition("laurels_store_up{")[2]
            for refused in (site.lb.stats, site.lb.check):
                with pytest.raises(errors.Unavailable):
                    refused()

        def with_b() -> None:
            until(lambda: site.get("/readyz").text == "ready\n", "the store is back")
            assert site.lb.submit("b1", "bob", 2).rank == 1

        asyncio.run(main())


def test_a_service_starts_while_a_store_is_down(tmp_path: Path) -> None:
    with Server() as one, Server() as two:
        with Site(tmp_path, one, two) as site:
            fill(site.lb, "b1", "c1")
        two.stop()
        with Site(tmp_path, one, two) as site:
            assert site.lb.rank("c1", "ann") == 1
            assert [board.name for board in site.lb.boards()] == ["c1"]
            assert "store 3 of 3" in site.get("/readyz").text
            two.start()
            until(lambda: site.get("/readyz").text == "ready\n", "the store is back")
            assert site.lb.rank("b1", "ann") == 1


# Boards in another store than the one in which their names place them


def test_boards_in_the_wrong_store_are_reported_and_not_served(
    tmp_path: Path, servers: tuple[Server, Server]
) -> None:
    folder = tmp_path / "boards"
    with laurels.open(folder) as lb:
        fill(lb, "a1", "a2", "c1")
    with capture_logs() as logs, Site(tmp_path, *servers) as site:
        (warning,) = [log["event"] for log in logs if "not served" in log["event"]]
        copy = f"laurels copy {folder} {site.stores['a*']} --board a1 --board a2"
        assert copy in warning
        assert [board.name for board in site.lb.boards()] == ["c1"]
        with pytest.raises(errors.UnknownBoard):
            site.lb.top("a1")
        with pytest.raises(BoardElsewhere):
            site.lb.create(laurels.Board("a1"), exist_ok=True)
        site.lb.create(laurels.Board("a3"))
    with laurels.open(site.stores["a*"]) as there, laurels.open(folder) as here:
        there.create(laurels.Board("a1"))  # stands for `laurels copy`
        here.delete("a2")
    with capture_logs() as logs, Site(tmp_path, *servers) as site:
        (warning,) = [log["event"] for log in logs if "not served" in log["event"]]
        assert '"a1"' in warning
        assert "delete them" in warning
        assert site.lb.create(laurels.Board("a1"), exist_ok=True).name == "a1"


def test_all_stores_need_the_same_kind_of_clock(tmp_path: Path) -> None:
    with laurels.open(tmp_path / "event", clock="event") as lb:
        lb.create(laurels.Board("b"))
        lb.submit("b", "ann", 1, at=1_795_392_000_000)
    with pytest.raises(errors.InvalidClock, match="event time"):
        Served(tmp_path / "boards", placement={"a*": str(tmp_path / "event")})
    with (
        Served(tmp_path / "event", placement={"a*": str(tmp_path / "new")}) as served,
        laurels.open(served.url) as lb,
    ):
        fill_at = lb.create(laurels.Board("a1"))
        lb.submit(fill_at.name, "ann", 1, at=1_795_392_000_000)
        assert lb.rank("a1", "ann") == 1


# Settings


def test_the_same_store_is_opened_once(tmp_path: Path) -> None:
    folder = tmp_path / "boards"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    other = str(tmp_path / "other")
    placement = {"a*": str(tmp_path / "link"), "b*": other, "c*": f"file:{other}/"}
    settings = Settings(data=str(folder), placement=placement)
    assert settings.stores == [str(folder), other]
    with Served(folder, placement=placement) as served, laurels.open(served.url) as lb:
        fill(lb, "a1", "b1", "c1")
    assert names_in(folder) == ["a1"]
    assert names_in(other) == ["b1", "c1"]
    same = {"a*": "redis://:secret@host/", "b*": "redis://host:6379/0", "c*": "redis://host/1"}
    assert len(Settings(data="redis://host", placement=same).stores) == 2


def test_the_placement_is_read_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "laurels.toml"
    file.write_text('[placement]\n"z*" = "redis://one"\n"a-*" = "two"\n"*" = "memory:"\n')
    settings = settings_of({}, {}, file)
    assert [*settings.placement] == ["z*", "a-*", "*"]
    assert settings.stores == ["laurels-data", "redis://one", "two", "memory:"]
    assert "placement" not in [setting.name for setting in table()]
    with pytest.raises(InvalidSettings, match="LAURELS_PLACEMENT"):
        settings_of({}, {"LAURELS_PLACEMENT": "a"}, None)


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ('"a b" = "folder"', "pattern 'a b': expected a board pattern"),
        ('"a*" = "https://:secret@host"', "pattern 'a.': expected a folder.* got a service"),
        ('"a*" = "postgresql://:secret@host"', "pattern 'a.': expected a folder.* another URL"),
        ('"a*" = "redis://:secret@host:x"', "pattern 'a.': .*names no index server"),
        ('"a*" = ""', "pattern 'a.': expected a folder"),
        ('"*" = "one"\n"a*" = "two"', "the pattern 'a.' never applies"),
        ('"a*" = 1', "placement"),
    ],
)
def test_a_wrong_placement_is_refused(lines: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "laurels.toml"
    file.write_text(f"[placement]\n{lines}\n")
    with pytest.raises(InvalidSettings, match=named) as refused:
        settings_of({}, {}, file)
    assert "secret" not in str(refused.value)


def test_an_open_server_cannot_use_an_index_server_and_workers_cannot_use_a_folder() -> None:
    with pytest.raises(InvalidSettings, match="redis://host"):
        ensure_possible(Settings(open=True, placement={"a*": "redis://host"}), None)
    with pytest.raises(InvalidSettings, match="folder"):
        workers.ensure_possible(
            Settings(data="redis://host", workers=2, placement={"a*": "folder"})
        )
