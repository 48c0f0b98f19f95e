"""Only keys that administer can read the due payouts, and each of them only the payouts of its own
boards. No key can move the positions of another key's readers."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

import laurels
from tests.http.test_moderation import ADMIN, key
from tests.serving import ADMIN_KEY, JSON, Served

DAY_MS = 86_400_000
NOON_MS = 1_795_176_000_000
PRIZES = {"list": [{"name": "gold", "ranks": [1, 1], "amount": 5}]}
DEFINITION = {"windows": [{"type": "day", "prizes": PRIZES}]}


@pytest.fixture
def served() -> Any:
    clock = laurels.ManualClock(NOON_MS)
    with Served("memory:", clock, admin_key=ADMIN_KEY) as server:
        boards = f"{server.url}/v1/boards"
        for name in ("room-1", "hall"):
            httpx.put(f"{boards}/{name}", json=DEFINITION, headers=ADMIN).raise_for_status()
            event = {"member": "ann", "value": 1}
            httpx.post(f"{boards}/{name}/scores", json=event, headers=ADMIN).raise_for_status()
        clock.advance(DAY_MS)
        httpx.post(f"{server.url}/v1/seal", headers=ADMIN).raise_for_status()
        yield server


def due(served: Served, headers: dict[str, str], path: str = "", **query: str) -> httpx.Response:
    return httpx.get(f"{served.url}/v1/payouts{path}", params=query, headers=headers)


def move(served: Served, headers: dict[str, str], **fields: object) -> int:
    url = f"{served.url}/v1/payouts/positions"
    return httpx.post(url, json=fields, headers=headers).status_code


@pytest.mark.parametrize("scope", ["read", "write"])
def test_other_keys_see_nothing(served: Served, scope: str) -> None:
    headers = key(served, scope)
    for path in ("", "/waiting", "/positions"):
        assert due(served, headers, path).status_code == 403
        assert due(served, JSON, path).status_code == 401
    assert move(served, headers, reader="x") == 403


def test_a_key_for_some_boards_sees_theirs(served: Served) -> None:
    rooms = key(served, "admin", ["room-*"])
    for headers, names in ((ADMIN, ["hall", "room-1"]), (rooms, ["room-1"])):
        page = due(served, headers).json()
        assert sorted(each["board"] for each in page["payouts"]) == names
        assert sorted(each["board"] for each in due(served, headers, "/waiting").json()) == names
    assert due(served, rooms, boards="hall").json()["payouts"] == []
    assert due(served, rooms, boards="a b").json()["code"] == "invalid_query"
    cursor = due(served, ADMIN, limit="1").json()["cursor"]
    assert due(served, rooms, after=cursor).status_code == 200
    refused = due(served, rooms, after=cursor + "0")
    assert (refused.status_code, refused.json()["code"]) == (409, "payouts_diverged")


def test_a_key_for_some_boards_has_readers_of_its_own(served: Served) -> None:
    rooms = key(served, "admin", ["room-*"])
    cursor = due(served, rooms).json()["cursor"]
    assert move(served, rooms, reader="sink:x", position=cursor) == 204
    assert move(served, rooms, reader="sink:x", position=cursor) == 409
    assert due(served, rooms, "/positions").json() == {"positions": {"sink:x": cursor}}
    [name] = due(served, ADMIN, "/positions").json()["positions"]
    assert name != "sink:x"
    assert move(served, ADMIN, reader="sink:x", position=cursor) == 204
    assert due(served, rooms, "/positions").json() == {"positions": {"sink:x": cursor}}
    audited = httpx.get(f"{served.url}/v1/audit", headers=ADMIN).json()["entries"]
    assert all("position" not in each["verb"] for each in audited)
    for fields in ({"reader": ""}, {"reader": "x", "position": "y"}, {"reader": "x" * 5_000}):
        assert move(served, ADMIN, **fields) == 400
