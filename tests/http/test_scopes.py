"""Scopes over HTTP: the labels of a query are one parameter, and unknown parameters are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.http.listening import Known, feed
from tests.serving import ADMIN_KEY, JSON, Served

GIFTS = {"scopes": [[], ["zone"], ["room"], ["zone", "gender"]], "rank_by": "room"}
EVENTS = [
    {"member": "ann", "value": 5, "labels": {"room": "42", "zone": "cn", "gender": "f"}},
    {"member": "bob", "value": 7, "labels": {"room": "42", "zone": None}},
    ["cid", 3, None, None, {"room": "a&b=c,d"}],
    ["dan", 4],
]


@pytest.fixture
def served() -> Iterator[Served]:
    with Served("memory:") as server:
        yield server


@pytest.fixture
def http(served: Served) -> Iterator[httpx.Client]:
    """A client of a server that has one board with scopes and one board without."""
    with httpx.Client(base_url=served.url, headers=JSON) as client:
        client.put("/v1/boards/gifts", json=GIFTS).raise_for_status()
        client.put("/v1/boards/plain", json={}).raise_for_status()
        client.post("/v1/boards/gifts/scores", json=EVENTS).raise_for_status()
        yield client


def members(answer: httpx.Response) -> list[str]:
    return [entry["member"] for entry in answer.raise_for_status().json()["entries"]]


def top(http: httpx.Client, **query: str) -> list[str]:
    return members(http.get("/v1/boards/gifts/top", params=query))


def test_labels_are_one_parameter(http: httpx.Client) -> None:
    assert top(http) == ["bob", "ann", "dan", "cid"]
    assert top(http, labels="room=42") == ["bob", "ann"]
    assert top(http, labels="room=a&b=c%2Cd") == ["cid"]
    assert top(http, labels="zone=cn,gender=f") == ["ann"]
    assert top(http, by="room") == ["42", "a&b=c,d"]
    page = http.get("/v1/boards/gifts/top?labels=room=42&limit=1").json()
    assert page["as_of"]["labels"] == {"room": "42"}
    assert page["as_of"]["by"] is None
    rest = http.get("/v1/boards/gifts/top", params={"labels": "room=42", "after": page["next"]})
    assert members(rest) == ["ann"]


def test_every_query_can_name_a_scope(http: httpx.Client) -> None:
    for path, answer in (
        ("around?member=ann&radius=0", lambda answer: answer["entries"][0]["rank"] == 2),
        ("standing?member=ann", lambda answer: answer["rank"] == 2 and answer["total"] == 2),
        ("card?member=ann", lambda answer: answer["windows"]["all"]["rank"] == 2),
        ("rank?member=ann", lambda answer: answer == {"rank": 2}),
        ("range?low=6", lambda answer: len(answer["entries"]) == 1),
        ("at-rank?rank=1", lambda answer: answer["member"] == "bob"),
        ("percentile?percent=100", lambda answer: answer["score"] == 7),
        ("count?low=1", lambda answer: answer["count"] == 2),
        ("periods?window=all", lambda answer: answer[0]["total"] == 2),
    ):
        body = http.get(f"/v1/boards/gifts/{path}&labels=room=42").raise_for_status().json()
        assert answer(body), (path, body)
    friends = http.post("/v1/boards/gifts/standings?labels=room=42", json=["ann", "dan"])
    assert members(friends) == ["ann"]
    ranks = http.post("/v1/boards/gifts/ranks?labels=room=42", json=["dan", "ann"])
    assert ranks.json() == {"ranks": [None, 2]}
    lines = http.get("/v1/boards/gifts/export?labels=room=42").content.splitlines()
    assert [msgspec.json.decode(line)["member"] for line in lines] == ["bob", "ann"]


REFUSED = [
    ("gifts/top?labels=colour=red", 404, "unknown_scope"),
    ("gifts/top?room=42", 400, "invalid_query"),
    ("gifts/top?colour=red", 400, "invalid_query"),
    ("gifts/live?room=42", 400, "invalid_query"),
    ("gifts/top?labels=room", 400, "invalid_query"),
    ("gifts/top?labels=room=4,2", 400, "invalid_query"),
    ("gifts/top?labels==42", 400, "invalid_query"),
    ("gifts/top?labels=room=42,", 400, "invalid_query"),
    ("gifts/top?labels=room=42,room=42", 400, "invalid_query"),
    ("gifts/top?labels=room=42&labels=room=42", 400, "invalid_query"),
    ("gifts/top?labels=room=%25ff", 400, "invalid_query"),
    ("gifts/top?labels=@room", 400, "invalid_query"),
    ("plain/top?labels=room=42", 404, "unknown_scope"),
    ("plain/live?labels=room=42", 404, "unknown_scope"),
    ("gifts/export?limt=5", 400, "invalid_query"),
    ("gifts/top?labels=room=42&room=43", 400, "invalid_query"),
    ("gifts/top?labels=room=%ff", 400, "invalid_query"),
    ("gifts/stats?labels=room=42", 400, "invalid_query"),
    ("gifts/top?labels=room=42,zone=cn", 404, "unknown_scope"),
    ("gifts/live?labels=room=42,zone=cn", 404, "unknown_scope"),
    ("gifts/top?labels=gender=f", 404, "unknown_scope"),
    ("gifts/top?by=zone", 404, "unknown_scope"),
    ("gifts/top?by=room&labels=room=42", 404, "unknown_scope"),
    ("gifts/top?labels=room=", 400, "invalid_label"),
    (f"gifts/top?labels=room={'x' * 129}", 400, "invalid_label"),
    ("none/top?labels=room=42", 404, "unknown_board"),
    ("gifts/scopes?labels=gender", 404, "unknown_scope"),
    ("gifts/scopes?labels=zone,,gender,nothing", 404, "unknown_scope"),
    ("gifts/scopes?labels=room&limit=x", 400, "invalid_query"),
    ("gifts/scopes?labels=room&limit=10001", 400, "invalid_limit"),
    ("gifts/scopes?labels=room&after=shop=1", 404, "unknown_scope"),
    ("gifts/scopes?labels=room&after=room=", 400, "invalid_label"),
    ("gifts/scopes?labels=room&after=room", 400, "invalid_query"),
    ("gifts/scopes?labels=room&room=42", 400, "invalid_query"),
]


@pytest.mark.parametrize(("path", "status", "code"), REFUSED, ids=lambda it: str(it)[:40])
def test_an_invalid_scope_is_refused(http: httpx.Client, path: str, status: int, code: str) -> None:
    answer = http.get(f"/v1/boards/{path}")
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_an_unknown_parameter_is_named_in_the_error(http: httpx.Client) -> None:
    problem = http.get("/v1/boards/gifts/top?labels=room=42&limt=5").json()
    assert problem["what"] == "there is no parameter `limt`; labels are given as labels=NAME=VALUE"
    problem = http.get("/v1/boards/gifts/top?labels=room").json()
    assert problem["what"] == 'expected labels as NAME=VALUE,NAME=VALUE, got "room"'
    assert http.get("/v1/boards/gifts/stats?limt=5").json()["what"].endswith("`limt`")


def test_scopes_are_listed_page_by_page(http: httpx.Client) -> None:
    path = "/v1/boards/gifts/scopes"
    first = http.get(path, params={"labels": "room", "limit": 1}).json()
    assert first["scopes"] == [{"room": "42"}]
    rest = http.get(path, params={"labels": "room", "limit": 2, "after": first["next"]}).json()
    assert rest == {"scopes": [{"room": "a&b=c,d"}], "next": None}
    two = http.get(path, params={"labels": "zone,gender"}).json()
    assert two == {"scopes": [{"gender": "f", "zone": "cn"}], "next": None}


def test_receipts_report_the_requested_scope(http: httpx.Client) -> None:
    event = {"member": "ann", "value": 3, "labels": {"room": "42"}}
    receipt = http.post("/v1/boards/gifts/scores?scope=room", json=event).json()
    assert (receipt["score"], receipt["rank"], receipt["labels"]) == (8, 1, {"room": "42"})
    receipt = http.post("/v1/boards/gifts/scores?scope=", json=event).json()
    assert (receipt["score"], receipt["labels"]) == (11, {})
    path = "/v1/boards/gifts/set?scope=gender,zone"
    labels = {"zone": "cn", "gender": "f"}
    receipt = http.post(path, json={"member": "ann", "value": 20, "labels": labels}).json()
    assert (receipt["status"], receipt["labels"]) == ("applied", labels)
    answer = http.post("/v1/boards/gifts/scores?scope=gender", json=event)
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_scope")


@pytest.mark.parametrize(
    ("labels", "code"),
    [
        ({"colour": "red"}, "unknown_label"),
        ({"room": ""}, "invalid_label"),
        ({"room": 42}, "invalid_label"),
        ({"room": ["42"]}, "invalid_label"),
        (["room"], "invalid_label"),
        ("room", "invalid_label"),
        ({"": "x"}, "unknown_label"),
    ],
    ids=str,
)
def test_events_with_other_labels_are_refused(
    http: httpx.Client, labels: object, code: str
) -> None:
    event = {"member": "ann", "value": 3, "labels": labels}
    for verb in ("scores", "set"):
        answer = http.post(f"/v1/boards/gifts/{verb}", json=event)
        assert (answer.status_code, answer.json()["code"]) == (422, code), answer.text
    both = http.post("/v1/boards/gifts/scores", json=[event, {"member": "ann", "value": 1}]).json()
    assert [receipt["reason"] for receipt in both["receipts"]] == [code, None]


def test_an_event_that_counts_nowhere_is_refused(http: httpx.Client) -> None:
    http.put("/v1/boards/rooms", json={"scopes": [["room"]]}).raise_for_status()
    answer = http.post("/v1/boards/rooms/scores", json={"member": "ann", "value": 1})
    assert (answer.status_code, answer.json()["code"]) == (422, "no_scope")
    answer = http.get("/v1/boards/rooms/top")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_scope")


def test_every_kind_of_body_carries_labels(http: httpx.Client) -> None:
    event = {"member": "zoe", "value": 1, "at": None, "labels": {"room": "7"}}
    path, ndjson = "/v1/boards/gifts/scores", {"Content-Type": "application/x-ndjson"}
    packed = {"Content-Type": "application/msgpack"}
    lines = msgspec.json.Encoder().encode_lines([event, event])
    http.post(path, content=lines, headers=ndjson).raise_for_status()
    http.post(path, content=msgspec.msgpack.encode(event), headers=packed).raise_for_status()
    http.post(path, content=msgspec.msgpack.encode([event]), headers=packed).raise_for_status()
    http.post("/v1/scores", json=[{"board": "gifts", **event}]).raise_for_status()
    http.post(path, json=[["zoe", 1, None, "an id", {"room": "7"}]]).raise_for_status()
    assert http.get("/v1/boards/gifts/top?labels=room=7").json()["entries"][0]["score"] == 6


def test_cached_answers_are_separate_for_each_scope(http: httpx.Client) -> None:
    for _ in range(2):
        assert top(http, labels="room=42") == ["bob", "ann"]
        assert top(http, labels="room=a&b=c%2Cd") == ["cid"]
        assert top(http, by="room") == ["42", "a&b=c,d"]
    event = {"member": "ann", "value": 9, "labels": {"room": "42"}}
    http.post("/v1/boards/gifts/scores", json=event).raise_for_status()
    assert top(http, labels="room=42") == ["ann", "bob"]


def test_scopes_are_added_to_a_board(http: httpx.Client) -> None:
    for change in ({"scopes": [[], ["room"]]}, {"rank_by": ["room"]}):
        http.patch("/v1/boards/plain", json=change).raise_for_status()
    event = {"member": "ann", "value": 1, "labels": {"room": "1"}}
    http.post("/v1/boards/plain/scores", json=event).raise_for_status()
    assert members(http.get("/v1/boards/plain/top?labels=room=1")) == ["ann"]
    answer = http.patch("/v1/boards/plain", json={"scopes": [["room"], []]})
    assert (answer.status_code, answer.json()["code"]) == (409, "unsafe_change")


def test_a_key_of_a_board_reads_its_scopes_and_no_other_board() -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as server:
        admin = {"Authorization": f"Bearer {ADMIN_KEY}"}
        for board in ("gifts", "secret"):
            httpx.put(f"{server.url}/v1/boards/{board}", json=GIFTS, headers=admin)
        fields = {"name": "page", "scope": "read", "boards": ["gifts"]}
        key = httpx.post(f"{server.url}/v1/keys", json=fields, headers=admin).json()["key"]
        with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {key}"}) as http:
            assert http.get("/v1/boards/gifts/scopes?labels=room").status_code == 200
            assert http.get("/v1/boards/gifts/top?labels=room=42").status_code == 200
            assert http.get("/v1/boards/secret/scopes?labels=room").status_code == 403
            assert http.get("/v1/boards/secret/top?labels=room=42").status_code == 403
            event = {"member": "ann", "value": 1, "labels": {"room": "1"}}
            assert http.post("/v1/boards/gifts/scores", json=event).status_code == 403


@pytest.mark.parametrize(
    ("query", "labels", "after"),
    [
        ("labels=room%3D42", {"room": "42"}, ["ann", "bob"]),
        ("by=room", {}, ["42", "7", "1"]),
    ],
)
def test_a_scope_is_watched(
    tmp_path: Path, query: str, labels: dict[str, str], after: list[str]
) -> None:
    async def main(server: Served) -> None:
        async with httpx.AsyncClient(base_url=server.url) as http:
            await http.put("/v1/boards/gifts", json=GIFTS)
            rooms = (("bob", 2, "42"), ("cid", 1, "1"))
            for member, value, room in rooms:
                await submit(http, member, value, room)
            path = f"/v1/boards/gifts/live?interval=20&{query}"
            async with feed(server.url, path) as watched:
                received = Known()
                received.take(await watched.next())
                assert received.as_of["labels"] == labels
                await submit(http, "dan", 3, "7")
                await submit(http, "ann", 5, "42")
                while [each["member"] for each in received.page["entries"]] != after:
                    received.take(await watched.next())
                page = (await http.get(f"/v1/boards/gifts/top?{query}")).json()
                assert received.page["entries"] == [plain(entry) for entry in page["entries"]]
            member = f"/v1/boards/gifts/live?interval=20&member={after[0]}&{query}"
            async with feed(server.url, member) as watched:
                assert (await watched.next()).document["rank"] == 1

    with Served(tmp_path / "boards") as server:
        asyncio.run(main(server))


async def submit(http: httpx.AsyncClient, member: str, value: int, room: str) -> None:
    event = {"member": member, "value": value, "labels": {"room": room}}
    (await http.post("/v1/boards/gifts/scores", json=event)).raise_for_status()


def plain(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in ("member", "rank", "score")}


def test_labels_are_described_where_they_are_allowed(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]

    def named(path: str, method: str = "get") -> dict[str, Any]:
        return {each["name"]: each for each in paths[path][method]["parameters"]}

    for verb in (
        "top",
        "around",
        "standing",
        "rank",
        "card",
        "range",
        "count",
        "live",
        "export",
        "periods",
    ):
        labels = named(f"/v1/boards/{{board}}/{verb}")["labels"]
        assert labels["schema"]["type"] == "string"
        assert "gender=f,room=42" in labels["schema"]["description"]
        assert "by" in named(f"/v1/boards/{{board}}/{verb}")
    assert named("/v1/boards/{board}/scopes")["labels"]["schema"]["type"] == "string"
    assert "labels" not in named("/v1/boards/{board}/stats")
    assert "scope" in named("/v1/boards/{board}/scores", "post")


def test_labels_may_have_the_names_of_parameters(http: httpx.Client) -> None:
    names = ("limit", "window", "labels", "by", "token", "reason")
    board = "/v1/boards/named"
    http.put(board, json={"scopes": [[name] for name in names]}).raise_for_status()
    for name in names:
        event = {"member": "ann", "value": 1, "labels": {name: "5"}}
        http.post(f"{board}/scores?scope={name}", json=event).raise_for_status()
        assert members(http.get(f"{board}/top?labels={name}=5&limit=1")) == ["ann"]
        assert http.get(f"{board}/scopes?labels={name}").json()["scopes"] == [{name: "5"}]
