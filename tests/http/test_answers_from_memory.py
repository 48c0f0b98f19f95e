"""`max_age` over HTTP: on one connection, an answer from memory is never older than an earlier
answer. The same holds for a client that sends the version it has seen. Nobody gets an answer about
a board that it may not read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import msgspec
import pytest

import laurels
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY, JSON, Served

AS_OF = "Laurels-As-Of"
BOARD = "/v1/boards/b"


class Elapsed:
    """A clock for the ages of answers, which only tests move."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns

    def advance(self, ms: int) -> None:
        self.ns += ms * 1_000_000


class Services:
    """Services over one index server, and connections to them."""

    def __init__(self, url: str, elapsed: Elapsed, stack: ExitStack) -> None:
        self.elapsed = elapsed
        self._url = url
        self._stack = stack
        self.writer = stack.enter_context(laurels.open(url))

    def start(self, **settings: Any) -> Served:
        served = Served(self._url, admin_key=ADMIN_KEY, **settings)
        self._stack.callback(served.close)
        return served

    def connect(self, served: Served, key: str = ADMIN_KEY) -> httpx.Client:
        """Return a client with one connection of its own."""
        client = httpx.Client(
            base_url=served.url,
            headers={**JSON, "Authorization": f"Bearer {key}"},
            limits=httpx.Limits(max_connections=1),
            timeout=60,
        )
        return self._stack.enter_context(client)

    def create(self, **fields: Any) -> None:
        self.writer.create(laurels.Board("b", **{"max_age": "10s", **fields}))
        self.writer.submit("b", "ann", 1)


@pytest.fixture(scope="module")
def redis() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def services(redis: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    redis.call("FLUSHALL")
    elapsed = Elapsed()
    monkeypatch.setattr("laurels.config.index_server.boot_ns", elapsed)
    with ExitStack() as stack:
        yield Services(redis.url, elapsed, stack)


def total(connection: httpx.Client, **headers: str) -> int:
    answer = connection.get(f"{BOARD}/top", headers=headers).raise_for_status()
    return int(answer.json()["total"])


def version(answer: httpx.Response) -> int:
    return int(answer.headers[AS_OF].partition(":")[2])


def test_an_answer_is_repeated_to_every_client_until_it_is_max_age_old(services: Services) -> None:
    services.create()
    served = services.start()
    one, two = services.connect(served), services.connect(served)
    assert total(one) == 1
    services.writer.submit("b", "bob", 1)
    assert (total(one), total(two)) == (1, 1)
    packed = two.get(f"{BOARD}/top", headers={"Accept": "application/msgpack"})
    assert msgspec.msgpack.decode(packed.content)["total"] == 2
    assert (total(one), total(two)) == (1, 2)
    services.elapsed.advance(10_000)
    assert (total(one), total(two)) == (2, 2)


def test_a_connection_never_goes_back(services: Services) -> None:
    services.create()
    served = services.start()
    one, two = services.connect(served), services.connect(served)
    assert total(one) == 1
    services.writer.submit("b", "bob", 1)
    seen = two.get(f"{BOARD}/standing?member=bob").raise_for_status()
    assert total(one) == 1
    again = two.get(f"{BOARD}/top").raise_for_status()
    assert again.json()["total"] == 2
    assert version(again) >= version(seen)
    assert total(one) == 2


def test_a_client_that_sends_its_version_never_goes_back_on_other_connections_and_workers(
    services: Services,
) -> None:
    services.create()
    one, two = services.start(), services.start()
    assert total(services.connect(two)) == 1
    services.writer.submit("b", "bob", 1)
    seen = services.connect(one).get(f"{BOARD}/count").raise_for_status()
    assert total(services.connect(two)) == 1
    assert total(services.connect(two), **{AS_OF: seen.headers[AS_OF]}) == 2
    assert total(services.connect(two)) == 2


def test_a_client_that_has_seen_the_new_board_is_not_shown_the_deleted_one(
    services: Services,
) -> None:
    services.create()
    one, two = services.start(), services.start()
    connection = services.connect(two)
    old = connection.get(f"{BOARD}/top").raise_for_status()
    services.writer.delete("b")
    services.writer.create(laurels.Board("b", max_age="10s"))
    new = services.connect(one).get(f"{BOARD}/top").raise_for_status()
    assert (old.json()["total"], new.json()["total"]) == (1, 0)
    assert total(connection) == 1
    assert total(services.connect(two), **{AS_OF: new.headers[AS_OF]}) == 0
    assert total(connection, **{AS_OF: old.headers[AS_OF]}) == 0
    assert total(connection) == 0


def test_the_version_of_another_board_or_of_the_future_has_no_effect(services: Services) -> None:
    services.create()
    served = services.start()
    one, two = services.connect(served), services.connect(served)
    assert total(one) == 1
    services.writer.submit("b", "bob", 1)
    assert total(two, **{AS_OF: "another.1:999"}) == 2
    tag = one.get(f"{BOARD}/top").headers[AS_OF].partition(":")[0]
    for _ in range(2):
        assert total(two, **{AS_OF: f"{tag}:999999"}) == 2
    services.writer.submit("b", "eve", 1)
    assert (total(one), total(two)) == (2, 2)


@pytest.mark.parametrize("text", ["", "x", "b:", "b:-1", "b:1:1", "b:1.x"])
def test_an_invalid_version_is_refused(services: Services, text: str) -> None:
    services.create()
    answer = services.connect(services.start()).get(f"{BOARD}/top", headers={AS_OF: text})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_header")


def test_a_version_sent_twice_is_refused(services: Services) -> None:
    services.create()
    headers = [(AS_OF, "b:1"), (AS_OF, "b:2")]
    answer = services.connect(services.start()).get(f"{BOARD}/top", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_header")


@pytest.mark.parametrize("batch", [False, True])
def test_a_writer_sees_its_write_at_once_and_others_by_the_version_in_its_answer(
    services: Services, batch: bool
) -> None:
    services.create()
    served = services.start()
    one, two, three = [services.connect(served) for _ in range(3)]
    assert [total(each) for each in (one, two, three)] == [1, 1, 1]
    event: object = {"member": "bob", "value": 1}
    wrote = one.post(f"{BOARD}/scores", json=[event] if batch else event).raise_for_status()
    assert total(two) == 1
    assert total(three, **{AS_OF: wrote.headers[AS_OF]}) == 2
    assert total(one) == 2


@pytest.mark.parametrize(
    ("method", "path", "body", "members"),
    [
        ("POST", "set", {"member": "bob", "value": 1}, 2),
        ("POST", "remove", {"member": "ann"}, 0),
        ("PUT", "data", {"member": "ann", "data": 1}, 1),
        ("PATCH", "", {"title": "T"}, 1),
    ],
)
def test_every_write_is_visible_to_its_writer(
    services: Services, method: str, path: str, body: object, members: int
) -> None:
    services.create()
    served = services.start()
    one, two = services.connect(served), services.connect(served)
    first = one.get(f"{BOARD}/top?with_data=true").raise_for_status()
    assert first.json()["total"] == 1
    one.request(method, f"{BOARD}/{path}".rstrip("/"), json=body).raise_for_status()
    after = one.get(f"{BOARD}/top?with_data=true").raise_for_status().json()
    assert after["total"] == members
    if path == "data":
        assert after["entries"][0]["data"] == 1
    if path in ("remove", "data"):
        assert two.get(f"{BOARD}/top?with_data=true").json() == after


def test_a_batch_of_several_boards_is_visible_to_its_writer(services: Services) -> None:
    services.create()
    one = services.connect(services.start())
    assert total(one) == 1
    events = [{"board": "b", "member": "bob", "value": 1}]
    one.post("/v1/scores", json=events).raise_for_status()
    assert total(one) == 2


def test_a_key_that_may_not_read_a_board_gets_no_answer_from_memory(services: Services) -> None:
    services.create()
    served = services.start()
    admin = services.connect(served)
    assert total(admin) == 1
    fields = {"name": "other", "boards": ["other-*"]}
    key = admin.post("/v1/keys", json=fields).raise_for_status().json()["key"]
    for credentials, status in ((key, 403), ("lk_unknown", 401)):
        answer = services.connect(served, credentials).get(f"{BOARD}/top")
        assert answer.status_code == status
        assert AS_OF not in answer.headers
        assert b"ann" not in answer.content
    allowed = {"name": "own", "boards": ["b"]}
    key = admin.post("/v1/keys", json=allowed).raise_for_status().json()["key"]
    connection = services.connect(served, key)
    assert total(connection) == 1
    admin.delete("/v1/keys/own").raise_for_status()
    assert connection.get(f"{BOARD}/top").status_code == 401


def test_settings_choose_the_boards_whose_answers_are_kept(services: Services) -> None:
    for name in ("hot-1", "hot-2", "cold"):
        services.writer.create(laurels.Board(name, max_age="10s"))
    for settings, kept in (
        ({}, {"hot-1", "hot-2", "cold"}),
        ({"cache_allow": ["hot-*"]}, {"hot-1", "hot-2"}),
        ({"cache_allow": ["hot-*", "c*"], "cache_deny": ["*-2"]}, {"hot-1", "cold"}),
        ({"cache_deny": ["*"]}, set[str]()),
        ({"cache_bytes": 0}, set[str]()),
    ):
        connection = services.connect(services.start(**settings))
        repeated = set()
        for name in ("hot-1", "hot-2", "cold"):
            path = f"/v1/boards/{name}/count"
            before = connection.get(path).raise_for_status()
            services.writer.submit(name, f"m{before.json()['count']}", 1)
            if connection.get(path).json() == before.json():
                repeated.add(name)
            assert (AS_OF in before.headers) == (name in kept)
        assert repeated == kept


def test_the_python_client_never_goes_back_between_services(services: Services) -> None:
    services.create()
    one, two = services.start(), services.start()
    assert total(services.connect(two)) == 1
    with laurels.open(one.url.replace("//", f"//{ADMIN_KEY}@")) as lb:
        lb.submit("b", "bob", 1)
        wire: Any = lb._store.wire  # type: ignore[attr-defined]
        wire.address = type(wire.address)(two.url, ADMIN_KEY)
        assert lb.top("b").total == 2
        lb.submit_many("b", [("eve", 1)])
        wire.address = type(wire.address)(one.url, ADMIN_KEY)
        assert lb.rank("b", "eve") is not None
        lb.delete("b")
        lb.create(laurels.Board("b", max_age="10s"))
        assert lb.top("b").total == 0
        assert lb.top("b").total == 0


def test_metrics_count_answers_by_their_age(services: Services) -> None:
    services.create()
    connection = services.connect(services.start())
    for _ in range(3):
        assert total(connection) == 1
        services.elapsed.advance(2_000)
    lines = connection.get("/metrics").text.splitlines()
    assert 'laurels_answers_total{source="memory"} 2.0' in lines
    assert 'laurels_answers_total{source="index_server"} 1.0' in lines
    assert 'laurels_answer_age_seconds_bucket{le="1.0"} 1.0' in lines
    assert 'laurels_answer_age_seconds_bucket{le="2.5"} 2.0' in lines
    assert "laurels_answer_age_seconds_sum 6.0" in lines
    (nbytes,) = [line for line in lines if line.startswith("laurels_answer_cache_bytes ")]
    assert float(nbytes.split()[1]) > 0


def test_hot_keys_are_shown_only_to_keys_that_may_read_their_boards(services: Services) -> None:
    services.create()
    services.writer.create(laurels.Board("c"))
    served = services.start()
    admin = services.connect(served)
    key = admin.post("/v1/keys", json={"name": "own", "boards": ["c"]}).json()["key"]
    for _ in range(60):
        admin.get(f"{BOARD}/rank?member=ann").raise_for_status()
        admin.get("/v1/boards/c/count").raise_for_status()
        assert admin.get("/v1/boards/c/rank?member=nobody").status_code == 404
        assert admin.get("/v1/boards/unknown/count").status_code == 404
    answer = admin.get("/v1/hot").raise_for_status().json()
    assert {hot["board"] for hot in answer["boards"]} == {"b", "c"}
    assert answer["members"] == [{"board": "b", "member": "ann", "count": 60}]
    own = services.connect(served, key).get("/v1/hot").raise_for_status().json()
    assert [hot["board"] for hot in own["boards"]] == ["c"]
    assert own["members"] == []
    with laurels.open(served.url.replace("//", f"//{ADMIN_KEY}@")) as lb:
        assert lb.hot().members == [laurels.HotMember("b", "ann", 60)]


def test_a_board_without_max_age_sends_no_version(services: Services) -> None:
    services.create(max_age="0s")
    connection = services.connect(services.start())
    answer = connection.get(f"{BOARD}/top")
    assert AS_OF not in answer.headers
    assert AS_OF not in connection.post(f"{BOARD}/scores", json={"member": "a", "value": 1}).headers


def test_a_folder_answers_with_the_current_state_despite_max_age() -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        headers = {**JSON, "Authorization": f"Bearer {ADMIN_KEY}"}
        with httpx.Client(base_url=served.url, headers=headers) as connection:
            connection.put(BOARD, json={"max_age": "1h"}).raise_for_status()
            for members in range(3):
                assert total(connection) == members
                assert total(connection, **{AS_OF: "x:99"}) == members
                event = {"member": f"m{members}", "value": 1}
                connection.post(f"{BOARD}/scores", json=event).raise_for_status()


def test_a_live_feed_shows_changes_though_answers_are_repeated(services: Services) -> None:
    services.create()
    served = services.start()
    connection = services.connect(served)
    assert total(connection) == 1
    lines = services.connect(served)
    with lines.stream("GET", f"{BOARD}/live?interval=20") as feed:
        received = ""
        events = feed.iter_text()
        while '"total":1' not in received:
            received += next(events)
        services.writer.submit("b", "bob", 1)
        while "bob" not in received:
            received += next(events)
    assert total(connection) == 1
