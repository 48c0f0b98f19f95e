"""Access to boards: what a key allows and for which boards, revoked keys, tokens, and limits on
rates."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from laurels.errors.service import Overloaded, TooManyRequests, TooManyStreams, Unauthorized
from laurels.server.admission.limits import AdmissionControl, Rates
from laurels.server.auth.access import Keys
from laurels.server.auth.caller import LEVEL
from laurels.server.routing.route import Route
from laurels.server.routing.routes import ROUTES
from laurels.stores.local.files.key_file import KEYS_FILE, FolderKeyStore
from laurels.stores.local.log.memory import MemoryLog
from tests.serving import JSON, Served

ADMIN = "the secret key of the administrator"


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}", **JSON}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("boards"), admin_key=ADMIN) as served:
        for board in ("gifts", "room-1", "other"):
            answer = httpx.put(f"{served.url}/v1/boards/{board}", json={}, headers=bearer(ADMIN))
            answer.raise_for_status()
        yield served


def made(server: Served, name: str, scope: str, *boards: str) -> str:
    """Create a key and return its secret."""
    fields = {"name": name, "scope": scope, "boards": list(boards or ("*",))}
    answer = httpx.post(f"{server.url}/v1/keys", json=fields, headers=bearer(ADMIN))
    assert answer.status_code == 201
    key: str = answer.json()["key"]
    return key


@pytest.fixture(scope="module")
def keys(server: Served) -> dict[str, str]:
    return {scope: made(server, scope, scope) for scope in LEVEL}


def ask(server: Served, row: Route, key: str | None, board: str = "gifts") -> httpx.Response:
    path = row.path.replace("{board}", board).replace("{name}", "nobody")
    headers = JSON if key is None else bearer(key)
    return httpx.request(row.method, server.url + path, headers=headers, content=b"null")


@pytest.mark.parametrize("row", ROUTES, ids=lambda row: f"{row.method} {row.path}")
def test_every_endpoint_requires_its_scope(
    server: Served, keys: dict[str, str], row: Route
) -> None:
    assert ask(server, row, None).json()["code"] == "unauthorized"
    assert ask(server, row, "lk_unknown").status_code == 401
    for scope, level in LEVEL.items():
        if level < row.level:
            answer = ask(server, row, keys[scope])
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    if row.of_board and not row.streams:
        narrow = ask(server, row, keys["admin"], "none-such")
        assert narrow.status_code not in (401, 403)


def test_a_key_reaches_the_boards_its_patterns_name(server: Served) -> None:
    key = made(server, "rooms", "write", "room-*", "gifts")
    for board, status in (("room-1", 200), ("gifts", 200), ("other", 403)):
        url = f"{server.url}/v1/boards/{board}/scores"
        event = {"member": "a", "value": 1}
        assert httpx.post(url, json=event, headers=bearer(key)).status_code == status
    listed = httpx.get(f"{server.url}/v1/boards", headers=bearer(key)).json()
    assert [board["name"] for board in listed] == ["gifts", "room-1"]
    events = [{"board": "gifts", "member": "a", "value": 1}]
    events.append({"board": "other", "member": "a", "value": 1})
    many = httpx.post(f"{server.url}/v1/scores", json=events, headers=bearer(key))
    assert many.status_code == 403


def test_a_revoked_key_is_refused_at_once(server: Served) -> None:
    key = made(server, "short", "read")
    url = f"{server.url}/v1/boards/gifts/top"
    assert httpx.get(url, headers=bearer(key)).status_code == 200
    gone = httpx.delete(f"{server.url}/v1/keys/short", headers=bearer(ADMIN))
    assert gone.status_code == 204
    assert httpx.get(url, headers=bearer(key)).status_code == 401
    again = httpx.delete(f"{server.url}/v1/keys/short", headers=bearer(ADMIN))
    assert again.json()["code"] == "unknown_key"


def test_a_token_can_read_its_boards_and_do_nothing_else(
    server: Served, keys: dict[str, str]
) -> None:
    fields = {"boards": ["gifts"], "seconds": 60}
    answer = httpx.post(f"{server.url}/v1/tokens", json=fields, headers=bearer(keys["read"]))
    token = answer.json()["token"]
    for path, status in (("gifts/top", 200), ("other/top", 403)):
        url = f"{server.url}/v1/boards/{path}"
        assert httpx.get(url, params={"token": token}).status_code == 401
        assert httpx.get(url, headers=bearer(token)).status_code == status
    written = httpx.post(
        f"{server.url}/v1/boards/gifts/scores",
        json={"member": "a", "value": 1},
        headers=bearer(token),
    )
    assert written.status_code == 403
    url = f"{server.url}/v1/boards/gifts/top"
    for wrong in (token[:-2] + "xx", token.replace(".", ""), "lt_", "lt_a.b", "lt_ä.ö"):
        assert httpx.get(url, params={"token": wrong}).status_code == 401, wrong


def test_a_key_creates_no_token_for_boards_beyond_its_own(server: Served) -> None:
    key = made(server, "narrow", "read", "room-*")
    for boards, status in ((["room-1"], 201), (["room-*"], 201), (["gifts"], 403), (["*"], 403)):
        answer = httpx.post(f"{server.url}/v1/tokens", json={"boards": boards}, headers=bearer(key))
        assert answer.status_code == status, boards


class Now:
    """A clock that the tests set."""

    ms = 1_000


def keys_in(folder: Path, *, open: bool = False) -> Keys:
    store = FolderKeyStore(folder, MemoryLog())
    return Keys(store, None, os.urandom, lambda: Now.ms, open=open)


def test_keys_survive_a_restart_and_are_stored_only_as_hashes(tmp_path: Path) -> None:
    first = keys_in(tmp_path)
    _, secret = first.create("game", "write", ["gifts"], 5)
    token, _ = first.token(first.caller(secret), ["gifts"], 10)
    file = tmp_path / KEYS_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert secret not in file.read_text()
    second = keys_in(tmp_path)
    caller = second.caller(secret)
    assert (caller.name, caller.rate, caller.sees("gifts"), caller.sees("other")) == (
        "game",
        5.0,
        True,
        False,
    )
    assert second.caller(token).level == LEVEL["read"]
    Now.ms += 10_000
    with pytest.raises(Unauthorized):
        second.caller(token)


def test_a_rate_limit_reports_when_to_retry() -> None:
    seconds = [0.0]
    rates = Rates(2.0, 3, lambda: seconds[0])
    for _ in range(3):
        rates.take("a", None)
    with pytest.raises(TooManyRequests) as refused:
        rates.take("a", None)
    assert refused.value.retry_after == 1
    rates.take("b", None)
    seconds[0] = 0.5
    rates.take("a", None)
    with pytest.raises(TooManyRequests):
        rates.take("a", None)
    seconds[0] = 0.503
    rates.take("a", 1_000.0)


def test_waiting_writes_and_open_feeds_are_limited() -> None:
    room = AdmissionControl(1, 3, 2, 1)
    with room.writing(), pytest.raises(Overloaded), room.writing():
        pass
    with room.writing(), room.streaming("a"), room.streaming("a"):
        with pytest.raises(TooManyStreams), room.streaming("a"):
            pass
        with room.streaming("b"), pytest.raises(TooManyStreams), room.streaming("c"):
            pass
    assert (room.writes, room.streams) == (0, 0)


def test_streams_are_charged_to_a_token_and_to_its_key() -> None:
    room = AdmissionControl(1, 10, 2, 1)
    with room.streaming("key", "key/ann"):
        with pytest.raises(TooManyStreams), room.streaming("key", "key/ann"):
            pass
        with room.streaming("key", "key/bob"):
            with pytest.raises(TooManyStreams), room.streaming("key", "key/cat"):
                pass
            with room.streaming("other", "other/ann"):
                assert room.streams == 3
    with room.streaming("key"), room.streaming("key"):
        pass
    assert room.streams == 0


def test_too_many_requests_get_429_with_retry_after(tmp_path: Path) -> None:
    with Served(tmp_path, rate=0.01, burst=2) as server:
        answers = [httpx.get(f"{server.url}/v1/boards") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert int(answers[2].headers["retry-after"]) >= 1
    assert answers[2].json()["retryable"] is True
