"""The service over an index server: several processes act as one service."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

import laurels
from laurels import errors
from laurels.server.live.hub import FOLLOW_SECONDS
from laurels.server.process.settings import Settings
from tests.counts import rare
from tests.http.listening import Frame, Known, feed
from tests.http.process import Process
from tests.redis.servers import Server, until
from tests.serving import ADMIN_KEY, JSON, Served

SOON_SECONDS = 60.0
"""The time limit of waiting. Normally a change is visible within milliseconds."""


def as_admin(call: Callable[..., httpx.Response]) -> Callable[..., httpx.Response]:
    """Return a function that sends requests by `call` with the admin key of the servers."""

    def ask(url: str, headers: Mapping[str, str] | None = None, **rest: Any) -> httpx.Response:
        keyed = {"Authorization": f"Bearer {ADMIN_KEY}", **JSON, **(headers or {})}
        return call(url, headers=keyed, **{"timeout": 60, **rest})

    return ask


class http:  # noqa: N801 (stands for the module httpx)
    get, put = as_admin(httpx.get), as_admin(httpx.put)
    post, delete = as_admin(httpx.post), as_admin(httpx.delete)


def keyed(url: str) -> str:
    return url.replace("//", f"//{ADMIN_KEY}@")


@pytest.fixture(scope="module")
def redis() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def pair(redis: Server) -> Iterator[tuple[str, str]]:
    """The addresses of two servers with the same boards."""
    with Process(f"{redis.url}?prefix=pair:") as one, Process(f"{redis.url}?prefix=pair:") as two:
        yield one.url, two.url


def put(url: str, board: str, **definition: Any) -> None:
    http.put(f"{url}/v1/boards/{board}", json=definition).raise_for_status()


def score(url: str, board: str, member: str, value: int, **headers: str) -> httpx.Response:
    answer = http.post(
        f"{url}/v1/boards/{board}/scores",
        json={"member": member, "value": value},
        headers=headers,
    )
    assert answer.status_code == 200, answer.text
    return answer


def listed(url: str, board: str) -> list[tuple[str, int]]:
    answer = http.get(f"{url}/v1/boards/{board}/top").raise_for_status().json()
    return [(entry["member"], entry["score"]) for entry in answer["entries"]]


def test_an_event_acknowledged_by_one_server_is_visible_on_the_other(pair: tuple[str, str]) -> None:
    one, two = pair
    put(one, "shown", windows=["all", "day"])
    for i in range(20):
        score(one, "shown", "ann", 1)
        assert listed(two, "shown") == [("ann", i + 1)]
    put(two, "shown", windows=["all", "day", "week"], title="New")
    assert http.get(f"{one}/v1/boards/shown", headers=JSON).json()["title"] == "New"
    assert http.get(f"{one}/v1/boards/shown/top?window=week").status_code == 200
    http.delete(f"{one}/v1/boards/shown", headers=JSON).raise_for_status()
    assert http.get(f"{two}/v1/boards/shown/top").json()["code"] == "unknown_board"
    assert http.get(f"{two}/v1/boards/shown", headers=JSON).json()["code"] == "unknown_board"


async def frames_until(read: Any, received: Known, wanted: list[tuple[str, int]]) -> list[Frame]:
    seen: list[Frame] = []
    while True:
        frame = await read.next(SOON_SECONDS)
        seen.append(frame)
        received.take(frame)
        entries = received.page["entries"]
        if [(entry["member"], entry["score"]) for entry in entries] == wanted:
            return seen


def test_a_feed_shows_events_counted_by_another_server(pair: tuple[str, str]) -> None:
    one, two = pair
    put(one, "fed")

    async def main() -> None:
        async with feed(two, "/v1/boards/fed/live?interval=20", key=ADMIN_KEY) as read:
            received = Known()
            await frames_until(read, received, [])
            took = []
            for total in range(1, 11):
                await asyncio.to_thread(score, one, "fed", "ann", 1)
                began = time.monotonic()
                await frames_until(read, received, [("ann", total)])
                took.append(time.monotonic() - began)
            assert min(took) < 4 * FOLLOW_SECONDS
            assert received.kinds == ["top"] + ["change"] * 10

    asyncio.run(main())


def test_event_numbers_of_another_server_are_not_resumed(pair: tuple[str, str]) -> None:
    one, two = pair
    put(one, "epochs")

    async def main() -> None:
        async with feed(one, "/v1/boards/epochs/live?interval=20", key=ADMIN_KEY) as read:
            first = await read.next()
            path, last = "/v1/boards/epochs/live?interval=20", first.number
            async with feed(two, path, last=last, key=ADMIN_KEY) as other:
                again = await other.next()
                assert again.kind == "top"
                assert again.number != first.number

    asyncio.run(main())


def test_an_event_for_an_unknown_window_is_refused(pair: tuple[str, str]) -> None:
    one, two = pair
    put(one, "windows")
    event = {"member": "ann", "value": 1}
    for query, code in (("window=day", "unknown_window"), ("scope=room", "unknown_scope")):
        answer = http.post(f"{one}/v1/boards/windows/scores?{query}", json=event)
        assert (answer.status_code, answer.json()["code"]) == (404, code)
    refused = http.post(f"{one}/v1/boards/windows/scores", json=event | {"labels": {"room": "1"}})
    assert (refused.status_code, refused.json()["code"]) == (422, "unknown_label")
    put(two, "windows", windows=["all", "day"])
    answer = http.post(f"{one}/v1/boards/windows/scores?window=day", json=event)
    assert answer.json()["rank"] == 1


def test_a_feed_ends_when_another_process_deletes_the_board(pair: tuple[str, str]) -> None:
    one, two = pair
    put(one, "gone")
    score(one, "gone", "ann", 1)

    async def main() -> None:
        async with feed(two, "/v1/boards/gone/live?interval=20", key=ADMIN_KEY) as read:
            assert (await read.next()).kind == "top"
            await asyncio.to_thread(http.delete, f"{one}/v1/boards/gone", headers=JSON)
            assert (await read.next(SOON_SECONDS)).kind == "end"

    asyncio.run(main())


def test_a_request_sent_again_to_another_counts_once(pair: tuple[str, str]) -> None:
    one, two = pair
    put(one, "keyed")
    key = {"Idempotency-Key": "k-1"}
    first = score(one, "keyed", "ann", 5, **key)
    assert score(one, "keyed", "ann", 5, **key).json() == first.json()
    again = score(two, "keyed", "ann", 5, **key)
    assert again.json()["status"] == "duplicate"
    assert listed(two, "keyed") == [("ann", 5)]


def test_the_client_works_with_either_server(pair: tuple[str, str]) -> None:
    one, two = pair
    with laurels.open(keyed(one)) as here, laurels.open(keyed(two)) as there:
        here.create(laurels.Board("client", windows=["all", "7d=rolling:7d/1h"]))
        receipts = here.submit_many("client", [(f"m{i}", i) for i in range(2_500)])
        assert receipts.applied == 2_500
        assert there.top("client", limit=1).entries[0].member == "m2499"
        assert there.standing("client", "m0", window="7d") is not None
        assert there.remove("client", "m2499")
        there.set_data("client", "m2498", {"name": "x"})
        assert here.top("client", limit=1, with_data=True).entries[0].data == {"name": "x"}
        assert here.check().boards >= 1
        there.rebuild()
        assert len(list(here.export("client"))) == 2_499
        with pytest.raises(errors.NothingToBackUp):
            here.snapshot()


def test_keys_are_shared(pair: tuple[str, str]) -> None:
    one, two = pair
    admin = {"Authorization": f"Bearer {ADMIN_KEY}"}
    made = httpx.post(f"{one}/v1/keys", json={"name": "game"}, headers=admin).json()
    key = {"Authorization": f"Bearer {made['key']}"}
    assert httpx.get(f"{two}/v1/boards", headers=key).status_code == 200
    problem = httpx.post(f"{two}/v1/keys", json={"name": "game"}, headers=admin).json()
    assert problem["code"] == "key_exists"
    token = httpx.post(f"{one}/v1/tokens", json={"boards": ["*"]}, headers=key).json()
    bearer = {"Authorization": f"Bearer {token['token']}"}
    assert httpx.get(f"{two}/v1/boards", headers=bearer).status_code == 200
    httpx.delete(f"{two}/v1/keys/game", headers=admin | JSON).raise_for_status()
    assert httpx.get(f"{two}/v1/boards", headers=key).status_code == 401
    until(lambda: httpx.get(f"{one}/v1/boards", headers=key).status_code == 401, "revoked")
    assert httpx.get(f"{one}/v1/boards").status_code == 401


def test_the_page_and_the_description_load(pair: tuple[str, str]) -> None:
    for path in ("/", "/docs", "/openapi.json", "/static/app.js", "/healthz", "/readyz"):
        assert http.get(pair[0] + path).status_code == 200


def test_an_unavailable_index_server_is_reported_until_it_returns() -> None:
    with Server() as redis, Process(redis.url) as server:
        put(server.url, "b")
        score(server.url, "b", "ann", 1)

        async def main() -> None:
            async with feed(server.url, "/v1/boards/b/live?interval=20", key=ADMIN_KEY) as read:
                await read.next()
                await asyncio.to_thread(_away_and_again, redis, server.url)
                frame = await read.next()
                assert frame.kind == "change"
                assert frame.document["scored"][0]["score"] == 2

        asyncio.run(main())


def _away_and_again(redis: Server, url: str) -> None:
    redis.stop()
    board = f"{url}/v1/boards/b"
    event = {"member": "ann", "value": 1, "id": "once"}
    with ThreadPoolExecutor(5) as pool:  # each request lasts until the server ends its retries
        reading = [f"{url}/readyz", f"{board}/top", board, f"{board}/live"]
        reads = [pool.submit(http.get, each) for each in reading]
        answers = [pool.submit(http.post, f"{board}/scores", json=event), *reads]
    for answer in (each.result() for each in answers):
        assert answer.status_code == 503
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["retry-after"] == "1"
        assert answer.json()["code"] == "index_unavailable"
        assert answer.json()["may_have_applied"] in (True, False)
    assert http.get(f"{url}/healthz").status_code == 200
    assert "laurels_index_up 0.0" in http.get(f"{url}/metrics").text
    redis.start()
    until(lambda: http.get(f"{url}/readyz").status_code == 200, "the server is ready again")
    until(lambda: http.post(f"{board}/scores", json=event).status_code == 200, "it counts again")
    assert "laurels_index_up 1.0" in http.get(f"{url}/metrics").text
    assert listed(url, "b") == [("ann", 2)]


def children(pid: int) -> list[int]:
    completed = subprocess.run(
        ["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True, text=True, check=True
    )
    return [int(line) for line in completed.stdout.split()]


def running(pids: list[int]) -> list[int]:
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}")]  # noqa: PTH110


def test_workers_are_one_service(redis: Server, pair: tuple[str, str]) -> None:
    with Process(f"{redis.url}?prefix=workers:", "--workers", "2") as server:
        assert len(children(server.pid)) == 2
        described = [http.get(f"{url}/openapi.json").content for url in (server.url, pair[0])]
        assert described[0] == described[1], "all processes describe the same service"
        put(server.url, "b")
        with ThreadPoolExecutor(30) as pool:
            list(pool.map(lambda i: score(server.url, "b", f"m{i % 3}", 1), range(30)))
        assert sorted(listed(server.url, "b")) == [("m0", 10), ("m1", 10), ("m2", 10)]
        for number in ("1", "2"):
            until(lambda n=number: answering_worker(server.url) == n, "each is asked")  # type: ignore[misc]
        workers = children(server.pid)
        code, output = server.end()
        assert (code, output.count("serving"), "Traceback" in output) == (0, 1, False), output
        assert not running(workers)


def answering_worker(url: str) -> str:
    """Return the name of the worker process that answers on a new connection."""
    text = http.get(f"{url}/metrics").text
    (line,) = [line for line in text.splitlines() if line.startswith("laurels_index_up")]
    return line.partition('worker="')[2][:1]


@pytest.mark.parametrize("end", [signal.SIGINT, *rare(signal.SIGTERM)])
def test_a_signal_to_the_parent_ends_the_workers(redis: Server, end: signal.Signals) -> None:
    with Process(f"{redis.url}?prefix=end:", "--workers", "2") as server:
        workers = children(server.pid)
        os.kill(server.pid, end)
        assert server.wait()[0] == 0
        assert not running(workers)


def test_a_worker_that_dies_ends_the_service(redis: Server) -> None:
    with Process(f"{redis.url}?prefix=dies:", "--workers", "2") as server:
        workers = children(server.pid)
        os.kill(workers[1], signal.SIGKILL)
        code, output = server.wait()
        assert code == 1
        assert "ended by itself" in output
        assert not running(workers)


def test_workers_end_with_their_parent(redis: Server) -> None:
    with Process(f"{redis.url}?prefix=orphans:", "--workers", "2") as server:
        workers = children(server.pid)
        server.kill()
        until(lambda: not running(workers), "the workers have ended")


@pytest.mark.parametrize(
    ("data", "code"), [("boards", "invalid_settings"), ("redis://127.0.0.1:1", "index_unavailable")]
)
def test_impossible_workers_report_the_reason_once(tmp_path: Any, data: str, code: str) -> None:
    place = data if "://" in data else tmp_path / data
    ended, output = Process(place, "--workers", "2").wait()
    assert ended == 2
    assert output.count(f"[{code}]") == 1
    assert "Traceback" not in output


def test_a_login_is_not_shown() -> None:
    with Server(password="sesame") as redis, Process(redis.url) as server:
        assert "sesame" not in server.output
        assert http.get(f"{server.url}/readyz").status_code == 200


def test_a_redis_without_persistence_causes_a_warning() -> None:
    with Server("--appendonly", "no") as redis:
        with Process(redis.url) as server:
            code, output = server.end()
            assert code == 0
            assert "appendonly yes" in output
        with pytest.warns(errors.DataAtRisk, match="appendonly yes"):
            laurels.open(redis.url).close()


def test_one_process_serves_by_default() -> None:
    assert Settings().workers == 1


def test_metrics_show_which_boards_are_about_to_lose_changes() -> None:
    """For each board that the caller may see, the metrics show how much of `changes_max` is in use,
    even if another process runs the board's sinks."""
    with Server() as server, laurels.open(server.url) as lb:
        lb.create(laurels.Board("b", changes="1h", changes_max=200))
        lb.create(laurels.Board("c", changes="1h", changes_max=200))
        lb.create(laurels.Board("plain"))
        for board in ("b", "c"):
            start = lb.changes(board, after="now").cursor
            lb.submit_many(board, [], position=("sink:slow", start))
            lb.submit_many(board, [(f"m{i}", 1) for i in range(50)])
        with Served(server.url, admin_key=ADMIN_KEY) as served:
            text = as_admin(httpx.get)(f"{served.url}/metrics").text
            assert 'laurels_board_changes_used_ratio{board="b"} 0.25' in text
            assert 'laurels_board_changes_used_ratio{board="c"} 0.25' in text
            assert 'board="plain"' not in text
            key = {"name": "some", "scope": "read", "boards": ["c"]}
            made = as_admin(httpx.post)(f"{served.url}/v1/keys", json=key).raise_for_status()
            secret = {"Authorization": f"Bearer {made.json()['key']}"}
            text = httpx.get(f"{served.url}/metrics", headers=secret).text
            assert 'laurels_board_changes_used_ratio{board="c"} 0.25' in text
            assert 'board="b"' not in text
            for i in range(40):
                lb.submit_many("b", [(f"m{j}", i) for j in range(50)])
            text = as_admin(httpx.get)(f"{served.url}/metrics").text
            assert 'laurels_board_changes_lost_total{board="b"}' in text
