"""The service as programs in any language use it, compared with the Python API."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

import laurels
from laurels.model.exact_json import decode_json
from laurels.stores.local.log.sqlite import SqliteLog
from tests.calendar_by_scanning import utc_ms
from tests.serving import ADMIN_KEY, JSON, Served

NOW_MS = utc_ms(datetime(2026, 11, 20, 15, 30, tzinfo=UTC))
BOARD = laurels.Board(
    "b", columns=[laurels.Column("points", scale=2)], windows=["all", "day"], title="B"
)
EVENTS = [("ann", "12.30"), ("bob", "7"), ("cid", "7.5"), ("ann", "-0.30")]

_json = msgspec.json.Encoder(decimal_format="number")


@pytest.fixture
def clock() -> laurels.ManualClock:
    return laurels.ManualClock(NOW_MS)


@pytest.fixture
def served(tmp_path: Path, clock: laurels.ManualClock) -> Iterator[Served]:
    with Served(tmp_path / "boards", clock) as server:
        yield server


@pytest.fixture
def http(served: Served) -> Iterator[httpx.Client]:
    """A client that sends requests to a new server without keys."""
    with httpx.Client(base_url=served.url, headers=JSON) as client:
        yield client


@pytest.fixture
def beside(clock: laurels.ManualClock) -> Iterator[laurels.Leaderboards]:
    """Another deployment, which gets the same writes through the Python API."""
    with laurels.open("memory:", clock=clock) as lb:
        yield lb


@pytest.fixture
def both(http: httpx.Client, beside: laurels.Leaderboards) -> tuple[Any, Any]:
    """Both deployments, with one board and some scores."""
    made = http.put("/v1/boards/b", content=BOARD.to_json())
    assert (made.status_code, made.content) == (201, beside.create(BOARD).to_json())
    http.post("/v1/boards/b/scores", json=[list(event) for event in EVENTS]).raise_for_status()
    beside.submit_many("b", EVENTS)
    return http, beside


def exact(response: httpx.Response) -> Any:
    """Return a JSON answer with exact numbers."""
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    return decode_json(response.content)


def written(answer: object) -> Any:
    """Return an answer of the Python API after it was encoded as JSON and decoded again."""
    return decode_json(_json.encode(answer))


def problem(response: httpx.Response, status: int, code: str) -> Any:
    """Assert that a request was refused with this status and code. Return the problem document."""
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert (response.status_code, document["status"], document["code"]) == (status, status, code)
    assert document["request_id"] == response.headers["x-request-id"]
    assert document["title"]
    assert document["advice"]
    assert document["detail"].startswith(document["what"])
    return document


QUESTIONS: list[tuple[str, Any]] = [
    ("top", lambda lb: lb.top("b")),
    ("top?limit=1&reverse=true", lambda lb: lb.top("b", limit=1, reverse=True)),
    ("top?window=day&offset=1", lambda lb: lb.top("b", window="day", offset=1)),
    ("around?member=bob&radius=0", lambda lb: lb.around("b", "bob", radius=0)),
    ("standing?member=bob&to_rank=1", lambda lb: lb.standing("b", "bob", to_rank=1)),
    ("range?low=7&high=7.5", lambda lb: lb.range("b", low=7, high="7.5")),
    ("at-rank?rank=2", lambda lb: lb.at_rank("b", 2)),
    ("percentile?percent=50", lambda lb: {"score": lb.score_at_percentile("b", 50)}),
    ("count?low=7.5", lambda lb: {"count": lb.count("b", low="7.5")}),
    ("periods?window=day", lambda lb: lb.periods("b", "day")),
    ("stats", lambda lb: lb.stats("b")),
    ("rank?member=bob", lambda lb: {"rank": lb.rank("b", "bob")}),
    ("rank?member=ann&window=day", lambda lb: {"rank": lb.rank("b", "ann", window="day")}),
    (
        "card?member=bob&to_rank=1&with_data=true",
        lambda lb: {"member": "bob", "windows": lb.card("b", "bob", to_rank=1, with_data=True)},
    ),
    ("card?member=zed", lambda lb: {"member": "zed", "windows": lb.card("b", "zed")}),
]


@pytest.mark.parametrize(("path", "ask"), QUESTIONS, ids=lambda it: it if type(it) is str else "")
def test_queries_give_the_answers_of_the_python_api(
    both: tuple[Any, Any], path: str, ask: Any
) -> None:
    http, lb = both
    assert exact(http.get(f"/v1/boards/b/{path}")) == written(ask(lb))


def test_scores_keep_their_digits(both: tuple[Any, Any]) -> None:
    http, _ = both
    assert b'"score":12.00' in http.get("/v1/boards/b/top?limit=1").content


def test_friends_are_requested_in_a_body(both: tuple[Any, Any]) -> None:
    http, lb = both
    expected = written(lb.standings("b", ["bob", "nobody", "ann"]))
    for body in (["bob", "nobody", "ann"], {"members": ["bob", "nobody", "ann"]}):
        assert exact(http.post("/v1/boards/b/standings", json=body)) == expected


def test_ranks_are_requested_in_a_body(both: tuple[Any, Any]) -> None:
    http, lb = both
    names = ["bob", "nobody", "ann", "bob"]
    expected = {"ranks": lb.ranks("b", names)}
    assert expected["ranks"][1] is None
    for body in (names, {"members": names}):
        assert exact(http.post("/v1/boards/b/ranks", json=body)) == expected
    day = exact(http.post("/v1/boards/b/ranks?window=day", json=names))
    assert day == {"ranks": lb.ranks("b", names, window="day")}
    assert exact(http.post("/v1/boards/b/ranks", json=[])) == {"ranks": []}


def test_one_event_gets_its_receipt(both: tuple[Any, Any]) -> None:
    http, lb = both
    event = {"member": "bob", "value": "6", "at": "2026-11-20T15:00:00Z", "id": "x"}
    at = datetime(2026, 11, 20, 15, tzinfo=UTC)
    for _ in range(2):
        expected = written(lb.submit("b", "bob", 6, at=at, id="x"))
        assert exact(http.post("/v1/boards/b/scores", json=event)) == expected
    assert expected["status"] == "duplicate"


def batch_body(kind: str, events: list[dict[str, Any]]) -> bytes:
    if kind == "msgpack":
        return msgspec.msgpack.encode(events)
    if kind == "x-ndjson":
        return b"\n".join(map(msgspec.json.encode, events))
    return msgspec.json.encode(events)


@pytest.mark.parametrize("kind", ["json", "x-ndjson", "msgpack"])
def test_a_batch_is_read_in_every_form(both: tuple[Any, Any], kind: str) -> None:
    http, lb = both
    events: list[dict[str, Any]] = [
        {"member": "dan", "value": "1.25"},
        {"member": "", "value": "1"},
        {"member": "eve", "value": 2, "at": NOW_MS - 1, "id": "x"},
    ]
    headers = {"Content-Type": f"application/{kind}"}
    body = batch_body(kind, events)
    answer = exact(http.post("/v1/boards/b/scores?ranks=1", content=body, headers=headers))
    receipts = lb.submit_many("b", events, ranks=True)
    assert answer["receipts"] == written(list(receipts))
    assert (answer["applied"], answer["refused"], answer["window"]) == (2, 1, "all")
    assert exact(http.get("/v1/boards/b/top")) == written(lb.top("b"))


@pytest.mark.parametrize(("listed", "places"), [("refused", [1]), ("none", [])])
def test_receipts_may_be_left_out(both: tuple[Any, Any], listed: str, places: list[int]) -> None:
    http, _ = both
    events = [["dan", 1], ["", 1], ["eve", 1]]
    answer = exact(http.post(f"/v1/boards/b/scores?receipts={listed}", json=events))
    assert (answer["applied"], answer["refused"]) == (2, 1)
    assert answer["places"] == places
    assert len(answer["receipts"]) == len(places)


def test_answers_are_msgpack_if_the_client_accepts_it(both: tuple[Any, Any]) -> None:
    http, lb = both
    answer = http.get("/v1/boards/b/top", headers={"Accept": "application/msgpack"})
    assert answer.headers["content-type"] == "application/msgpack"
    page = msgspec.msgpack.decode(answer.content)
    assert [Decimal(entry["score"]) for entry in page["entries"]] == [
        entry.score for entry in lb.top("b").entries
    ]


def test_events_of_several_boards_are_sent_in_one_request(both: tuple[Any, Any]) -> None:
    http, _ = both
    http.put("/v1/boards/c", json={}).raise_for_status()
    events = [{"board": board, "member": "zoe", "value": 1} for board in ("b", "c", "b")]
    answer = exact(http.post("/v1/scores", json=events))
    assert answer["applied"] == 3
    assert [len(answer["boards"][name]["receipts"]) for name in ("b", "c")] == [2, 1]


def test_set_data_and_remove_give_the_answers_of_the_python_api(both: tuple[Any, Any]) -> None:
    http, lb = both
    answer = http.post("/v1/boards/b/set", json={"member": "bob", "value": 20})
    assert exact(answer) == written(lb.set("b", "bob", 20))
    data = {"member": "bob", "data": {"name": "Bob", "n": 1.5}}
    assert http.put("/v1/boards/b/data", json=data).status_code == 204
    lb.set_data("b", "bob", {"name": "Bob", "n": 1.5})
    path = "/v1/boards/b/top?with_data=true"
    assert exact(http.get(path)) == written(lb.top("b", with_data=True))
    removed = [
        exact(http.post("/v1/boards/b/remove", json={"member": "bob"}))["removed"] for _ in range(2)
    ]
    assert removed == [True, False]


def test_a_position_is_kept_with_its_batch(both: tuple[Any, Any]) -> None:
    http, _ = both
    assert exact(http.get("/v1/boards/b/position?source=file")) == {"position": None}
    http.post(
        "/v1/boards/b/scores", params={"position_source": "file", "position": "7"}, json=[]
    ).raise_for_status()
    assert exact(http.get("/v1/boards/b/position?source=file")) == {"position": "7"}


def test_an_export_has_one_line_per_entry(both: tuple[Any, Any]) -> None:
    http, lb = both
    answer = http.get("/v1/boards/b/export")
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [decode_json(line) for line in answer.content.splitlines()] == [
        written(entry) for entry in lb.export("b")
    ]


def test_boards_are_created_changed_and_deleted(both: tuple[Any, Any]) -> None:
    http, lb = both
    there = http.put("/v1/boards/b?on_exists=accept", content=BOARD.to_json())
    assert (there.status_code, there.content) == (200, BOARD.to_json())
    changed = http.patch("/v1/boards/b", json={"title": "Other"})
    assert changed.content == lb.change("b", title="Other").to_json()
    assert http.put("/v1/boards/b", content=BOARD.to_json()).json()["title"] == "B"
    assert [board["name"] for board in exact(http.get("/v1/boards"))] == ["b"]
    assert http.delete("/v1/boards/b").status_code == 204
    assert exact(http.get("/v1/boards")) == []


def test_check_rebuild_and_snapshot_work(both: tuple[Any, Any]) -> None:
    http, lb = both
    assert exact(http.post("/v1/check")) == written(lb.check())
    assert http.post("/v1/rebuild").status_code == 204
    assert exact(http.post("/v1/snapshot")) == {"offset": exact(http.get("/v1/stats"))["offset"]}


REFUSED: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("GET", "/v1/boards/none/top", {}, 404, "unknown_board"),
    ("GET", "/v1/nothing", {}, 404, "not_found"),
    ("PUT", "/v1/boards/b/top", {}, 405, "method_not_allowed"),
    ("GET", "/v1/boards/b/standing?member=zed", {}, 404, "member_not_ranked"),
    ("GET", "/v1/boards/b/standing?member=bob&window=*", {}, 404, "unknown_window"),
    ("GET", "/v1/boards/b/rank?member=zed", {}, 404, "member_not_ranked"),
    ("GET", "/v1/boards/b/rank?member=", {}, 400, "member_empty"),
    ("GET", "/v1/boards/b/rank?member=bob&to_rank=1", {}, 400, "invalid_query"),
    ("GET", "/v1/boards/b/rank", {}, 400, "invalid_query"),
    ("GET", "/v1/boards/b/card?member=bob&window=day", {}, 400, "invalid_query"),
    ("GET", "/v1/boards/b/card?member=bob&to_rank=0", {}, 400, "invalid_rank"),
    ("GET", "/v1/boards/none/card?member=bob", {}, 404, "unknown_board"),
    ("GET", "/v1/boards/b/ranks", {}, 405, "method_not_allowed"),
    ("POST", "/v1/boards/b/ranks?window=none", {"json": ["bob"]}, 404, "unknown_window"),
    ("POST", "/v1/boards/b/ranks", {"json": "bob"}, 400, "invalid_body"),
    ("POST", "/v1/boards/b/ranks", {"json": {"names": ["bob"]}}, 400, "invalid_body"),
    ("POST", "/v1/boards/b/ranks", {"json": [7]}, 400, "invalid_member"),
    ("POST", "/v1/boards/b/ranks", {"json": ["m"] * 10_001}, 400, "invalid_limit"),
    ("GET", "/v1/boards/b/at-rank?rank=99", {}, 404, "rank_not_held"),
    ("GET", "/v1/boards/b/top?colour=red", {}, 400, "invalid_query"),
    ("GET", "/v1/boards/b/top?limit=x", {}, 400, "invalid_query"),
    ("GET", "/v1/boards/b/top?window=day&period=2020-01-01", {}, 410, "period_expired"),
    ("POST", "/v1/boards/b/scores", {"content": b"{"}, 400, "invalid_json"),
    ("POST", "/v1/boards/b/scores", {"content": b"7"}, 400, "invalid_body"),
    ("POST", "/v1/boards/b/scores", {"json": {"member": "a", "value": "x"}}, 422, "invalid_value"),
    (
        "POST",
        "/v1/boards/b/scores",
        {"content": b"\xc1", "headers": {"Content-Type": "application/msgpack"}},
        400,
        "invalid_msgpack",
    ),
    (
        "POST",
        "/v1/boards/b/scores",
        {"content": b"a,1", "headers": {"Content-Type": "text/csv"}},
        415,
        "unsupported_media_type",
    ),
    ("POST", "/v1/boards/b/scores", {"json": [["a", 1]] * 10_001}, 413, "batch_too_long"),
    ("POST", "/v1/boards/b/scores", {"content": b" " * (9 << 20)}, 413, "body_too_large"),
    ("GET", f"/v1/boards/b/standing?member={'x' * 9_000}", {}, 414, "url_too_long"),
    ("PUT", "/v1/boards/b?on_exists=refuse", {"content": BOARD.to_json()}, 409, "board_exists"),
    ("PUT", "/v1/boards/b", {"json": {"tie": "last"}}, 409, "unsafe_change"),
    ("PATCH", "/v1/boards/b", {"json": {"name": "c"}}, 409, "unsafe_change"),
]


@pytest.mark.parametrize(
    ("method", "path", "more", "status", "code"), REFUSED, ids=lambda it: str(it)[:40]
)
def test_errors_have_their_status_and_code(
    both: tuple[Any, Any], method: str, path: str, more: dict[str, Any], status: int, code: str
) -> None:
    http, lb = both
    problem(http.request(method, path, **more), status, code)
    assert exact(http.get("/v1/boards/b/top")) == written(lb.top("b"))


def test_a_refused_all_or_nothing_batch_reports_the_reasons(both: tuple[Any, Any]) -> None:
    http, _ = both
    events = [["dan", 1], ["", 1]]
    answer = http.post("/v1/boards/b/scores?all_or_nothing=true", json=events)
    document = problem(answer, 409, "batch_refused")
    assert [receipt["reason"] for receipt in document["receipts"]] == [
        "batch_refused",
        "member_empty",
    ]


def test_a_repeated_request_with_a_key_gets_the_first_answer(both: tuple[Any, Any]) -> None:
    http, _ = both
    headers = {"Idempotency-Key": "job-1"}

    def send(value: int) -> httpx.Response:
        answer: httpx.Response = http.post(
            "/v1/boards/b/scores", json=[["dan", value]], headers=headers
        )
        return answer

    first, again = send(5), send(5)
    assert first.content == again.content
    assert again.headers["idempotency-replayed"] == "true"
    assert exact(again)["applied"] == 1
    problem(send(6), 422, "idempotency_mismatch")
    assert exact(http.get("/v1/boards/b/standing?member=dan"))["score"] == 5


def test_a_key_permits_what_its_scope_and_boards_allow(tmp_path: Path) -> None:
    with (
        Served(tmp_path / "boards", admin_key=ADMIN_KEY) as served,
        httpx.Client(base_url=served.url) as http,
    ):

        def headers(key: str) -> dict[str, str]:
            return {"Authorization": f"Bearer {key}", **JSON}

        admin = headers(ADMIN_KEY)
        problem(http.get("/v1/boards"), 401, "unauthorized")
        problem(http.get("/v1/boards", headers=headers("lk_wrong")), 401, "unauthorized")
        for name in ("room-1", "hall"):
            http.put(f"/v1/boards/{name}", json={}, headers=admin).raise_for_status()
        rule = {"name": "game", "scope": "write", "boards": ["room-*"]}
        made = http.post("/v1/keys", json=rule, headers=admin)
        game = headers(made.json()["key"])
        assert made.status_code == 201
        event = {"member": "ann", "value": 1}
        assert http.post("/v1/boards/room-1/scores", json=event, headers=game).is_success
        problem(http.post("/v1/boards/hall/scores", json=event, headers=game), 403, "forbidden")
        problem(http.delete("/v1/boards/room-1", headers=game), 403, "forbidden")
        assert [board["name"] for board in exact(http.get("/v1/boards", headers=game))] == [
            "room-1"
        ]
        assert [key["name"] for key in exact(http.get("/v1/keys", headers=admin))] == ["game"]
        assert http.delete("/v1/keys/game", headers=admin).status_code == 204
        problem(http.get("/v1/boards", headers=game), 401, "unauthorized")


def test_too_many_requests_get_a_retry_time(tmp_path: Path) -> None:
    with (
        Served(tmp_path / "boards", rate=0.01, burst=2) as served,
        httpx.Client(base_url=served.url) as http,
    ):
        assert [http.get("/v1/boards").status_code for _ in range(2)] == [200, 200]
        refused = http.get("/v1/boards")
        problem(refused, 429, "too_many_requests")
        assert int(refused.headers["retry-after"]) >= 1


def test_more_feeds_than_there_is_room_for_are_refused(tmp_path: Path) -> None:
    with (
        Served(tmp_path / "boards", max_streams=1) as served,
        httpx.Client(base_url=served.url) as http,
    ):
        http.put("/v1/boards/b", json={}).raise_for_status()
        with http.stream("GET", "/v1/boards/b/live") as live:
            assert live.status_code == 200
            lines = live.iter_lines()
            next(lines)
            problem(http.get("/v1/boards/b/live"), 429, "too_many_streams")


class Gate:
    """Hold back all commits, before they are written to the disk, until `opened` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        append = SqliteLog.append

        def blocked_append(log: SqliteLog, body: bytes) -> int:
            self.reached.set()
            assert self.opened.wait(60)
            return append(log, body)

        monkeypatch.setattr(SqliteLog, "append", blocked_append)


def test_a_write_beyond_the_limit_of_waiting_writes_gets_a_retry_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Served(tmp_path / "boards", max_writes=1) as served,
        httpx.Client(base_url=served.url) as http,
        ThreadPoolExecutor() as elsewhere,
    ):
        http.put("/v1/boards/b", json={}).raise_for_status()
        gate = Gate(monkeypatch)
        event = {"member": "ann", "value": 1}
        first = elsewhere.submit(http.post, "/v1/boards/b/scores", json=event)
        assert gate.reached.wait(60)
        refused = http.post("/v1/boards/b/scores", json=event)
        gate.opened.set()
        problem(refused, 503, "overloaded")
        assert refused.headers["retry-after"] == "1"
        assert first.result(20).status_code == 200
        assert exact(http.get("/v1/boards/b/standing?member=ann"))["score"] == 1
