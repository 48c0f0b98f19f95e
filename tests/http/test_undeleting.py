"""A key can restore a deleted board over HTTP only if it administers both the old and the new name
of the board. About a board that it does not administer, it gets the same answer as about a board
that never existed."""

from __future__ import annotations

from typing import Any

import httpx

import laurels
from tests.http.test_moderation import ADMIN, key
from tests.serving import ADMIN_KEY, Served

START_MS = 1_795_176_000_000  # 2026-11-20 12:00 UTC
DAY_MS = 86_400_000


def undelete(served: Served, board: str, headers: dict[str, str], **fields: Any) -> httpx.Response:
    path = f"{served.url}/v1/boards/{board}/undelete"
    return httpx.post(path, json=fields, headers=headers)


def test_who_restores_a_board() -> None:
    clock = laurels.ManualClock(START_MS)
    with Served("memory:", admin_key=ADMIN_KEY, clock=clock) as served:
        with laurels.open(served.url.replace("//", f"//{ADMIN_KEY}@")) as lb:
            for board in ("room-1", "hall"):
                lb.create(laurels.Board(board, windows=["all", "day:archive=forever"]))
                lb.submit(board, "ann", 3)
            clock.advance(2 * DAY_MS)
            for board in ("room-1", "hall"):
                lb.delete(board)
        rooms = key(served, "admin", ["room-*"])
        listed = httpx.get(f"{served.url}/v1/archive/removed", headers=rooms).json()
        assert [each["name"] for each in listed] == ["room-1"]
        for headers in (key(served, "read"), key(served, "write")):
            assert undelete(served, "room-1", headers).status_code == 403
            path = f"{served.url}/v1/archive/removed"
            assert httpx.get(path, headers=headers).status_code == 403
        foreign = [undelete(served, board, rooms) for board in ("hall", "nothing")]
        foreign += [undelete(served, "room-1", rooms, name=name) for name in ("hall", "nothing")]
        assert {(each.status_code, each.json()["code"]) for each in foreign} == {(403, "forbidden")}
        uid = httpx.get(f"{served.url}/v1/archive/removed", headers=ADMIN).json()[1]["uid"]
        for fields in ({"uid": uid}, {"uid": "nope"}):
            refused = undelete(served, "room-1", rooms, **fields)
            assert (refused.status_code, refused.json()["code"]) == (404, "not_restorable")
        for invalid in ({"name": 5}, {"nam": "x"}, {"name": "a b"}, {"name": ""}):
            assert undelete(served, "room-1", rooms | ADMIN, **invalid).status_code in (400, 422)
        restored = undelete(served, "room-1", rooms, name="room-2")
        assert (restored.status_code, restored.json()["name"]) == (200, "room-2")
        taken = undelete(served, "hall", ADMIN, name="room-2")
        assert (taken.status_code, taken.json()["code"]) == (409, "board_exists")
        audit = httpx.get(f"{served.url}/v1/audit", headers=ADMIN).json()["entries"]
        entry = next(each for each in audit if each["verb"] == "undelete")
        assert (entry["board"], entry["request"]["name"]) == ("room-1", "room-2")
