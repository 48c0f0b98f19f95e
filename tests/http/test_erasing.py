"""Only keys that administer all boards erase members, and the audit log never names them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

import laurels
from tests.http.test_moderation import ADMIN, key
from tests.serving import ADMIN_KEY, Served

ERASE = {"member": "zoe the person", "reason": "asked for it"}


def filled(served: Served) -> None:
    with laurels.open(served.url.replace("//", f"//{ADMIN_KEY}@")) as lb:
        for board in ("room-1", "hall"):
            lb.create(laurels.Board(board))
            lb.submit(board, ERASE["member"], 3)


def test_a_key_that_may_not_administer_all_boards_erases_nobody() -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        filled(served)
        limited = [
            key(served, "read"),
            key(served, "write"),
            key(served, "admin", ["room-*"]),
        ]
        for headers in limited:
            refused = httpx.post(f"{served.url}/v1/erase", json=ERASE, headers=headers)
            assert refused.status_code == 403
        assert httpx.post(f"{served.url}/v1/erase", json=ERASE).status_code == 401
        board = f"{served.url}/v1/boards/hall"
        assert httpx.get(f"{board}/top", headers=ADMIN).json()["total"] == 1


def test_the_audit_log_has_the_token() -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        filled(served)
        board = f"{served.url}/v1/boards/hall"
        hidden = {"member": ERASE["member"], "reason": "review"}
        httpx.post(f"{board}/hide", json=hidden, headers=ADMIN).raise_for_status()
        answer = httpx.post(f"{served.url}/v1/erase", json=ERASE, headers=ADMIN)
        answer.raise_for_status()
        erasure = answer.json()
        assert erasure["boards"] == 2
        page = httpx.get(f"{served.url}/v1/audit", headers=ADMIN)
        erased, hide = page.json()["entries"][:2]
        assert (erased["verb"], erased["by"]) == ("erase", "LAURELS_ADMIN_KEY")
        assert erased["reason"] == ERASE["reason"]
        assert erased["request"] == {"reason": ERASE["reason"], "token": erasure["token"]}
        assert hide["request"] == {"member": erasure["token"], "reason": "review"}
        assert ERASE["member"] not in page.text


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"member": "ann"},
        {"member": "", "reason": "x"},
        {"member": "ann", "reason": ""},
        {"member": "ann", "reason": "x" * 501},
        {"member": 3, "reason": "x"},
        {"member": "ann", "reason": ["x"]},
        {"member": "ann", "reason": "x", "until": 3},
        [],
    ],
)
def test_a_malformed_request_erases_nobody(body: Any) -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        answer = httpx.post(f"{served.url}/v1/erase", json=body, headers=ADMIN)
        assert answer.status_code == 400
        assert httpx.get(f"{served.url}/v1/audit", headers=ADMIN).json()["entries"] == []
