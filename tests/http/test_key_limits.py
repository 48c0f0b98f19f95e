"""The holder of a key cannot create, see, change or revoke keys that have more permissions than
this key, or that are for other boards."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx
import pytest

from laurels.errors.service import Forbidden, InvalidKey, UnknownKey
from laurels.model.board_patterns import covers_all, matches
from laurels.server.auth import access
from laurels.server.auth.access import Keys
from laurels.server.auth.admitting import MIN_ADMIN_KEY
from laurels.wire.keys import MemoryKeyStore
from tests.serving import ADMIN_KEY, JSON, Served

BOARDS = ("room-1", "room-2", "other")


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        for board in BOARDS:
            request(served, "PUT", f"boards/{board}", ADMIN_KEY, {}).raise_for_status()
        yield served


def request(
    server: Served, method: str, path: str, key: str, document: object = None
) -> httpx.Response:
    headers = {**JSON, "authorization": f"Bearer {key}"}
    return httpx.request(method, f"{server.url}/v1/{path}", headers=headers, json=document)


def make(server: Served, name: str, key: str = ADMIN_KEY, **fields: object) -> httpx.Response:
    return request(server, "POST", "keys", key, {"name": name, **fields})


def test_a_board_limited_admin_key_keeps_to_its_boards(server: Served) -> None:
    rooms = make(server, "rooms", scope="admin", boards=["room-*"], rate=50).json()["key"]
    for path in ("check", "rebuild", "snapshot", "tokens/rotate"):
        answer = request(server, "POST", path, rooms)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), path
    for fields in (
        {"boards": ["*"]},
        {"boards": ["room-1", "other"]},
        {"boards": ["room-1"], "rate": 51},
        {"boards": ["?oom-*"]},
        {},
    ):
        assert make(server, "rooms.wide", rooms, scope="admin", **fields).status_code == 403, fields
    made = make(server, "rooms.room", rooms, scope="write", boards=["room-1"]).json()
    assert (made["rate"], made["made_by"]) == (50.0, "rooms")
    assert make(server, "boss", scope="admin").status_code == 201
    seen = request(server, "GET", "keys", rooms).json()
    assert [key["name"] for key in seen] == ["rooms", "rooms.room"]
    for name in ("boss", "nobody"):
        for method, path in (("DELETE", f"keys/{name}"), ("POST", f"keys/{name}/rotate")):
            answer = request(server, method, path, rooms)
            assert (answer.status_code, answer.json()["code"]) == (404, "unknown_key")
    assert request(server, "DELETE", "keys/rooms.room", rooms).status_code == 204
    assert request(server, "DELETE", "keys/rooms", rooms).status_code == 204
    assert request(server, "GET", "keys", rooms).status_code == 401


def test_a_board_limited_admin_key_cannot_tell_which_names_are_taken(server: Served) -> None:
    team = make(server, "team", scope="admin", boards=["team-*"]).json()["key"]
    make(server, "secret", scope="read").raise_for_status()
    for name in ("secret", "absent", "team", "teamwork", "LAURELS_ADMIN_KEY"):
        answer = make(server, name, team, boards=["team-1"])
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_key"), name
    assert make(server, "team.a", team, boards=["team-1"]).status_code == 201
    assert make(server, "team.a", team, boards=["team-1"]).json()["code"] == "key_exists"


def test_a_board_limited_admin_key_creates_a_limited_number_of_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access, "MAX_MADE_KEYS", 3)
    keys = Keys(MemoryKeyStore(), None, os.urandom, lambda: 0)
    _, secret = keys.create("team", "admin", ["team-*"])
    team = keys.caller(secret)
    _, below = keys.create("team.a", "admin", ["team-1"], by=team)
    keys.create("team.a.b", "read", ["team-1"], by=keys.caller(below))
    keys.create("team.c", "read", ["team-1"], by=team)
    for name, by in (("team.a.d", keys.caller(below)), ("team.d", team)):
        with pytest.raises(InvalidKey, match="the maximum"):
            keys.create(name, "read", ["team-1"], by=by)
    keys.create("other", "read", ["team-1"])


def test_forbidden_boards_look_like_missing_ones(server: Served) -> None:
    key = make(server, "narrow", scope="admin", boards=["room-*"]).json()["key"]
    for method, path in (("GET", "/top"), ("GET", ""), ("POST", "/scores"), ("DELETE", "")):
        answers = [request(server, method, f"boards/{b}{path}", key) for b in ("other", "absent")]
        for answer in answers:
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_a_key_that_expires_makes_no_key_that_outlives_it() -> None:
    now = [1_000]
    keys = Keys(MemoryKeyStore(), None, os.urandom, lambda: now[0])
    _, secret = keys.create("short", "admin", seconds=60)
    caller = keys.caller(secret)
    with pytest.raises(Forbidden):
        keys.create("long", "read", seconds=61, by=caller)
    child, _ = keys.create("child", "read", by=caller)
    assert child.expires_ms == 61_000
    _, until_ms = keys.token(caller, ["*"], 3_600)
    assert until_ms == 61_000
    keys.create("forever", "read")
    assert [key.name for key in keys.listed(caller)] == ["child", "short"]
    with pytest.raises(UnknownKey):
        keys.revoke("forever", caller)


def test_the_default_rate_bounds_keys_of_board_limited_admins() -> None:
    keys = Keys(MemoryKeyStore(), None, os.urandom, lambda: 1_000, default_rate=10)
    room = keys.caller(keys.create("room", "admin", ["room"])[1])
    with pytest.raises(Forbidden):
        keys.create("room.fast", "read", ["room"], 11, by=room)
    assert keys.create("room.slow", "read", ["room"], by=room)[0].rate == 10
    boss = keys.caller(keys.create("boss", "admin")[1])
    assert keys.create("faster", "read", rate=500, by=boss)[0].rate == 500


@pytest.mark.parametrize("name", ["anybody", "Operator", "unknown", "token", "LAURELS_ADMIN_KEY"])
def test_no_key_gets_the_name_of_another_kind_of_caller(server: Served, name: str) -> None:
    assert make(server, name).json()["code"] == "invalid_key"


@pytest.mark.parametrize("name", ["a/b", "a'b", 'a"b', "../x", "a\nb", "", "x" * 65, None, 7])
def test_invalid_key_names_are_refused(server: Served, name: object) -> None:
    assert request(server, "POST", "keys", ADMIN_KEY, {"name": name}).status_code == 400
    assert request(server, "DELETE", "keys/%27%3B--", ADMIN_KEY).status_code == 404


@pytest.mark.parametrize(
    "boards", [[], ["x"] * 101, ["x" * 65], ["a b"], ["é"], [""], [7], "gifts", {}]
)
def test_patterns_are_bounded(server: Served, boards: object) -> None:
    assert make(server, "patterns", boards=boards).json()["code"] == "invalid_key"


def test_400_000_patterns_are_refused(server: Served) -> None:
    answer = make(server, "patterns", boards=["a"] * 400_000)
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


def test_a_star_never_matches_a_slash() -> None:
    assert matches("*", "gifts")
    assert not matches("*", "tenant/gifts")
    assert not matches("tenant*", "tenant/gifts")
    assert not matches("tenant?gifts", "tenant/gifts")
    assert not matches("tenant[/]gifts", "tenant/gifts")
    assert matches("tenant/*", "tenant/gifts")
    assert not matches("tenant/*", "tenant/a/b")
    assert not covers_all(["room*"], ["room/1"])
    assert not covers_all(["*"], ["a/*"])
    assert covers_all(["a/*"], ["a/room-*"])
    assert not covers_all(["room-[12]*"], ["room-[12]x*"]), (
        "patterns that are hard to compare do not count as covered"
    )


def test_a_pattern_of_many_stars_is_matched_fast() -> None:
    assert not matches("*a" * 31 + "*b", "a" * 256)
    assert not matches("*a" * 31, "a" * 100_000)


@pytest.mark.parametrize("key", ["x", "x" * (MIN_ADMIN_KEY - 1)])
def test_a_short_admin_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidKey, match="20 characters"):
        Keys(MemoryKeyStore(), key, os.urandom, lambda: 1_000)
    Keys(MemoryKeyStore(), "x" * MIN_ADMIN_KEY, os.urandom, lambda: 1_000)
