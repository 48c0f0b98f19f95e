"""The audit log has one entry for each administrative call. The entries remain when the server
ends, and their number is bounded. A key sees only the entries of its boards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from laurels.stores.local.files.audit import NAME, FolderAudit
from laurels.wire.audit_entry import AuditEntry, AuditStore, MemoryAudit
from tests.http.process import Process
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY, JSON, Served

ADMIN = {"Authorization": f"Bearer {ADMIN_KEY}", **JSON}


def entries(url: str, headers: dict[str, str] = ADMIN, **query: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{url}/v1/audit", headers=headers, params=query, timeout=60)
    page: list[dict[str, Any]] = answer.raise_for_status().json()["entries"]
    return page


def administer(url: str) -> None:
    """Make one call of every administrative kind, in order, and some calls that are not
    administrative."""
    board = f"{url}/v1/boards/gifts"
    calls: list[tuple[str, str, Any]] = [
        ("PUT", f"{board}?reason=season%20begins%0A", {"title": "Gifts"}),
        ("PATCH", board, {"title": "More"}),
        ("POST", f"{board}/scores", {"member": "ann", "value": 1}),
        ("POST", f"{board}/set?reason=typo", {"member": "ann", "value": 5}),
        ("POST", f"{board}/remove", {"member": "ann"}),
        ("POST", f"{url}/v1/keys", {"name": "game"}),
        ("POST", f"{url}/v1/check", None),
        ("DELETE", f"{url}/v1/keys/game", None),
        ("DELETE", f"{url}/v1/keys/nobody", None),
        ("DELETE", f"{board}?reason=season+over", None),
    ]
    for method, path, body in calls:
        httpx.request(method, path, json=body, headers=ADMIN, timeout=60)


EXPECTED = [
    ("create", "gifts", None, "season begins\n"),
    ("change", "gifts", None, None),
    ("set", "gifts", None, "typo"),
    ("remove", "gifts", None, None),
    ("create_key", None, None, None),
    ("check", None, None, None),
    ("revoke_key", None, "game", None),
    ("delete", "gifts", None, "season over"),
]


def brief(newest_first: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (entry["verb"], entry["board"], entry["target"], entry["reason"])
        for entry in reversed(newest_first)
    ]


def test_each_administrative_call_is_one_entry_that_outlives_the_server(tmp_path: Path) -> None:
    with Served(tmp_path, admin_key=ADMIN_KEY) as served:
        administer(served.url)
        assert brief(entries(served.url)) == EXPECTED
    with Served(tmp_path, admin_key=ADMIN_KEY) as again:
        listed = entries(again.url)
    assert brief(listed) == EXPECTED
    assert {entry["by"] for entry in listed} == {"LAURELS_ADMIN_KEY"}
    assert {entry["client"] for entry in listed} == {"127.0.0.1"}
    assert listed[-3]["request"] == {"member": "ann", "value": 5}
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


def test_entries_of_an_index_server_are_those_of_all_processes() -> None:
    with Server() as redis, Process(redis.url) as one, Process(redis.url) as two:
        administer(one.url)
        assert brief(entries(two.url)) == EXPECTED


def test_a_repeated_request_adds_no_entry() -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        for _ in range(3):
            keyed = {**ADMIN, "Idempotency-Key": "once"}
            httpx.put(f"{served.url}/v1/boards/b", json={}, headers=keyed).raise_for_status()
        assert len(entries(served.url)) == 1


def test_a_key_for_some_boards_sees_only_their_entries() -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        for board in ("room-1", "hall"):
            httpx.put(f"{served.url}/v1/boards/{board}", json={}, headers=ADMIN)
        fields = {"name": "rooms", "scope": "admin", "boards": ["room-*"]}
        made = httpx.post(f"{served.url}/v1/keys", json=fields, headers=ADMIN).json()
        rooms = {"Authorization": f"Bearer {made['key']}"}
        assert [entry["board"] for entry in entries(served.url, rooms)] == ["room-1"]
        assert entries(served.url, rooms, board="hall") == []
        put = f"{served.url}/v1/boards/room-1?reason=mine"
        httpx.put(put, json={"title": "ours"}, headers={**JSON, **rooms}).raise_for_status()
        seen = entries(served.url, rooms, board="room-1")
        assert {(each["by"], bool(each["client"])) for each in seen} == {
            ("rooms", True),
            ("another key", False),
        }, "names and addresses of other callers are hidden"
        fields = {"name": "reader", "scope": "read"}
        made = httpx.post(f"{served.url}/v1/keys", json=fields, headers=ADMIN).json()
        reader = {"Authorization": f"Bearer {made['key']}"}
        assert httpx.get(f"{served.url}/v1/audit", headers=reader).status_code == 403


def test_entries_are_read_in_pages() -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        for number in range(5):
            httpx.put(f"{served.url}/v1/boards/b{number}", json={}, headers=ADMIN)
        boards, before = [], None
        while True:
            query = {"limit": "2"} | ({} if before is None else {"before": before})
            answer = httpx.get(f"{served.url}/v1/audit", headers=ADMIN, params=query).json()
            boards += [entry["board"] for entry in answer["entries"]]
            before = answer["next"]
            if before is None:
                break
        assert boards == ["b4", "b3", "b2", "b1", "b0"]
        for wrong, code in (
            ({"limit": "0"}, "invalid_limit"),
            ({"limit": "1001"}, "invalid_limit"),
            ({"before": "x"}, "invalid_cursor"),
            ({"before": "1;2"}, "invalid_cursor"),
            ({"before": "9" * 20}, "invalid_cursor"),
        ):
            answer = httpx.get(f"{served.url}/v1/audit", headers=ADMIN, params=wrong)
            assert answer.json()["code"] == code
        long = httpx.delete(f"{served.url}/v1/boards/b0?reason={'x' * 501}", headers=ADMIN)
        assert long.json()["code"] == "invalid_query"


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_only_the_newest_entries_are_kept(tmp_path: Path, kind: str) -> None:
    store: AuditStore = MemoryAudit(3) if kind == "memory" else FolderAudit(tmp_path, 3)
    for number in range(5):
        store.add([AuditEntry(at_ms=number, by="a", verb="set")])
    assert [entry.id for entry in store.page(None, 10)] == ["5", "4", "3"]
    store.close()
