"""Event ids over HTTP: ids that come from an Idempotency-Key or from a token belong to the caller.
So callers cannot use up each other's ids."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.serving import ADMIN_KEY, JSON, Served


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        ask(served, "PUT", "boards/b", ADMIN_KEY, {"changes": "1h"}).raise_for_status()
        yield served


def ask(
    server: Served, method: str, path: str, key: str, document: object = None, once: str = ""
) -> httpx.Response:
    headers = {**JSON, "authorization": f"Bearer {key}"}
    if once:
        headers["idempotency-key"] = once
    return httpx.request(method, f"{server.url}/v1/{path}", headers=headers, json=document)


def made(server: Served, name: str) -> str:
    fields = {"name": name, "scope": "write", "boards": ["b"]}
    answer = ask(server, "POST", "keys", ADMIN_KEY, fields)
    return str(answer.raise_for_status().json()["key"])


def token(server: Served, key: str, member: str, **fields: object) -> str:
    answer = ask(server, "POST", "tokens", key, {"boards": ["b"], "member": member, **fields})
    return str(answer.raise_for_status().json()["token"])


def sent(server: Served, key: str, event: object, once: str = "", path: str = "scores") -> str:
    answer = ask(server, "POST", f"boards/b/{path}", key, event, once)
    return str(answer.raise_for_status().json()["status"])


def test_an_idempotency_key_belongs_to_the_key_that_used_it(server: Served) -> None:
    one, other = made(server, "one"), made(server, "other")
    event = {"member": "ann", "value": 5}
    assert sent(server, one, event, "order-1") == "applied"
    assert sent(server, other, event, "order-1") == "applied"
    assert sent(server, other, event, "order-1") == "applied", "the first answer is repeated"
    assert sent(server, ADMIN_KEY, {"member": "ann", "value": 9}, "order-1", "set") == "applied"
    listed = [{**event, "board": "b"}]
    third = made(server, "third")
    answer = ask(server, "POST", "scores", third, listed, "order-1").raise_for_status()
    assert answer.json()["boards"]["b"]["receipts"][0]["status"] == "applied"
    standing = ask(server, "GET", "boards/b/standing?member=ann", ADMIN_KEY).json()
    assert standing["score"] == 14


def test_a_rotated_key_keeps_its_idempotency_keys(server: Served) -> None:
    key = made(server, "rotated")
    event = {"member": "eve", "value": 5}
    assert sent(server, key, event, "order-2") == "applied"
    answer = ask(server, "POST", "keys/rotated/rotate", ADMIN_KEY, {"grace_seconds": 0})
    assert sent(server, answer.json()["key"], event, "order-2") == "applied"
    standing = ask(server, "GET", "boards/b/standing?member=eve", ADMIN_KEY).json()
    assert standing["score"] == 5


@pytest.mark.parametrize("id", ["penalty-1", "x" * 128, "é" * 60])
def test_a_token_cannot_use_up_the_ids_of_others(server: Served, id: str) -> None:
    member = f"m{len(id)}"
    playing = token(server, ADMIN_KEY, member)
    assert sent(server, playing, {"member": member, "value": 0, "id": id}) == "applied"
    again = token(server, ADMIN_KEY, member)
    repeated = {"member": member, "value": 3, "id": id}
    assert sent(server, again, repeated) == "duplicate", "tokens of one member share their ids"
    assert sent(server, ADMIN_KEY, {"member": member, "value": -5, "id": id}) == "applied"


@pytest.mark.parametrize("id", ["", "x" * 129, 7])
def test_an_invalid_id_of_a_token_is_refused(server: Served, id: object) -> None:
    playing = token(server, ADMIN_KEY, "bob")
    event = {"member": "bob", "value": 1, "id": id}
    answer = ask(server, "POST", "boards/b/scores", playing, event)
    assert answer.status_code in (400, 422), answer.text
