"""Only keys that administer hide members, and only on their boards; each call is in the audit
log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

import laurels
from tests.serving import ADMIN_KEY, JSON, Served

ADMIN = {"Authorization": f"Bearer {ADMIN_KEY}", **JSON}
HIDE = {"member": "ann", "reason": "scripted gifts"}


def key(served: Served, scope: str, boards: list[str] | None = None) -> dict[str, str]:
    """Make a key, and return the headers of its calls."""
    fields: dict[str, Any] = {"name": f"{scope}-key", "scope": scope}
    if boards is not None:
        fields["boards"] = boards
    made = httpx.post(f"{served.url}/v1/keys", json=fields, headers=ADMIN).raise_for_status()
    return {"Authorization": f"Bearer {made.json()['key']}", **JSON}


@pytest.mark.parametrize("scope", ["read", "write"])
def test_keys_that_do_not_administer_cannot_hide(scope: str) -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        board = f"{served.url}/v1/boards/gifts"
        httpx.put(board, json={}, headers=ADMIN).raise_for_status()
        headers = key(served, scope)
        refused = [
            httpx.post(f"{board}/hide", json=HIDE, headers=headers),
            httpx.post(f"{board}/show", json={"member": "ann"}, headers=headers),
            httpx.get(f"{board}/hidden", headers=headers),
        ]
        assert [answer.status_code for answer in refused] == [403] * 3
        assert httpx.get(f"{board}/hidden", headers=ADMIN).json() == []


def test_a_key_for_some_boards_hides_only_there() -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        boards = f"{served.url}/v1/boards"
        for name in ("room-1", "hall"):
            httpx.put(f"{boards}/{name}", json={}, headers=ADMIN).raise_for_status()
        rooms = key(served, "admin", ["room-*"])
        assert httpx.post(f"{boards}/room-1/hide", json=HIDE, headers=rooms).status_code == 204
        assert httpx.post(f"{boards}/hall/hide", json=HIDE, headers=rooms).status_code == 403
        assert httpx.get(f"{boards}/hall/hidden", headers=rooms).status_code == 403
        assert httpx.post(f"{served.url}/v1/hide", json=HIDE, headers=rooms).status_code == 403
        assert httpx.get(f"{served.url}/v1/hidden", headers=rooms).status_code == 403
        assert httpx.post(f"{served.url}/v1/hide", json=HIDE, headers=ADMIN).status_code == 204
        [everywhere] = httpx.get(f"{served.url}/v1/hidden", headers=ADMIN).json()
        assert everywhere["everywhere"]
        [hidden] = httpx.get(f"{boards}/room-1/hidden", headers=rooms).json()
        assert (hidden["member"], hidden["reason"]) == ("ann", "scripted gifts")


def test_the_audit_log_says_who_hid_whom_and_why() -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        board = f"{served.url}/v1/boards/gifts"
        httpx.put(board, json={}, headers=ADMIN).raise_for_status()
        moderator = key(served, "admin")
        httpx.post(f"{board}/hide", json=HIDE, headers=moderator).raise_for_status()
        shown = httpx.post(
            f"{board}/show?reason=appeal", json={"member": "ann"}, headers=moderator
        ).raise_for_status()
        assert shown.json() == {"shown": True}
        page = httpx.get(f"{served.url}/v1/audit?board=gifts", headers=ADMIN).json()
        show, hide = page["entries"][:2]
        assert (hide["verb"], hide["by"], hide["reason"]) == ("hide", "admin-key", HIDE["reason"])
        assert (show["verb"], show["by"], show["reason"]) == ("show", "admin-key", "appeal")
        assert hide["request"] == HIDE


@pytest.mark.parametrize(
    "body",
    [{}, {"member": "ann"}, {**HIDE, "until": "soon"}, {**HIDE, "more": 1}, {**HIDE, "reason": 7}],
)
def test_a_malformed_request_hides_nobody(body: dict[str, Any]) -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        board = f"{served.url}/v1/boards/gifts"
        httpx.put(board, json={}, headers=ADMIN).raise_for_status()
        assert httpx.post(f"{board}/hide", json=body, headers=ADMIN).status_code == 400
        assert httpx.get(f"{board}/hidden", headers=ADMIN).json() == []


def test_the_end_of_a_hiding_is_a_time_as_in_events() -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        board = f"{served.url}/v1/boards/gifts"
        httpx.put(board, json={}, headers=ADMIN).raise_for_status()
        for until in ("2100-01-01T02:00:00+02:00", 4_102_444_800_000):
            answer = httpx.post(f"{board}/hide", json={**HIDE, "until": until}, headers=ADMIN)
            assert answer.status_code == 204, answer.text
            [hidden] = httpx.get(f"{board}/hidden", headers=ADMIN).json()
            assert hidden["until_ms"] == 4_102_444_800_000


def test_a_member_is_hidden_in_every_store_behind_a_service(tmp_path: Path) -> None:
    placement = {"b*": str(tmp_path / "second")}
    with Served(tmp_path / "first", admin_key=ADMIN_KEY, placement=placement) as served:
        url = f"http://{ADMIN_KEY}@{served.url.removeprefix('http://')}"
        with laurels.open(url) as lb:
            for board in ("a", "b"):
                lb.create(laurels.Board(board))
                lb.submit_many(board, [("ann", 3), ("bob", 2)])
            lb.hide(None, "ann", "banned")
            assert [lb.rank(board, "ann") for board in ("a", "b")] == [None, None]
            assert [lb.rank(board, "bob") for board in ("a", "b")] == [1, 1]
            assert [each.member for each in lb.hidden()] == ["ann"]
            assert lb.show(None, "ann")
            assert not lb.show(None, "ann")
            assert [lb.rank(board, "ann") for board in ("a", "b")] == [1, 1]


def test_only_keys_that_administer_see_reasons_and_payments(tmp_path: Path) -> None:
    with Served(str(tmp_path), admin_key=ADMIN_KEY) as served:
        board = f"{served.url}/v1/boards/gifts"
        httpx.put(board, json={"changes": "1d"}, headers=ADMIN).raise_for_status()
        httpx.post(f"{board}/hide", json=HIDE, headers=ADMIN).raise_for_status()
        reader = key(served, "read")

        def hidden(headers: dict[str, str]) -> dict[str, Any]:
            page = httpx.get(f"{board}/changes", headers=headers).raise_for_status().json()
            [change] = [each for each in page["changes"] if each["kind"] == "hide"]
            assert change["member"] == "ann"
            return dict(change)

        assert hidden(ADMIN)["data"]["reason"] == "scripted gifts"
        assert hidden(reader).get("data") is None
        with httpx.stream("GET", f"{board}/changes/live", headers=reader) as stream:
            frames = (line for line in stream.iter_lines() if line.startswith("data: "))
            assert "scripted gifts" not in next(frames)
        assert httpx.get(f"{board}/payouts", headers=reader).status_code == 403
        assert httpx.get(f"{board}/payouts", headers=ADMIN).json()["payouts"] == []
