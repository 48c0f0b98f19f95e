"""Open streams end as soon as the server no longer accepts their key or token."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

import laurels
from laurels.server.process import serving
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY, JSON, Served

from .process import Process

WITHIN_SECONDS = 60
ADMIN = {**JSON, "authorization": f"Bearer {ADMIN_KEY}"}


def make(url: str, what: str, **fields: object) -> str:
    """Create a key or a token."""
    answer = httpx.post(f"{url}/v1/{what}", json=fields, headers=ADMIN)
    answer.raise_for_status()
    return str(answer.json()["key" if what == "keys" else "token"])


def seconds_until_end(url: str, secret: str, end: Callable[[], object]) -> float:
    """Open a live feed, then call `end`. Return the seconds from that call until the feed ended."""
    headers = {"authorization": f"Bearer {secret}"}
    live = httpx.stream("GET", f"{url}/v1/boards/b/live", headers=headers, timeout=WITHIN_SECONDS)
    began = None
    try:
        with live as answer:
            assert answer.status_code == 200
            for line in answer.iter_lines():
                if began is None and line.startswith("data:"):
                    end()
                    began = time.monotonic()
                assert began is None or time.monotonic() - began < WITHIN_SECONDS
    except httpx.TransportError:
        pass
    assert began is not None
    return time.monotonic() - began


def revoke(url: str, name: str) -> None:
    httpx.delete(f"{url}/v1/keys/{name}", headers=ADMIN).raise_for_status()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of ms by which the clock of keys and tokens is ahead. Tests change it."""
    ahead, real = [0], serving._now_ms
    monkeypatch.setattr(serving, "_now_ms", lambda: real() + ahead[0])
    return ahead


@pytest.fixture
def server(tmp_path: Path, now: list[int]) -> Iterator[Served]:
    assert now == [0]
    with Served(tmp_path, admin_key=ADMIN_KEY) as served:
        httpx.put(f"{served.url}/v1/boards/b", json={}, headers=ADMIN).raise_for_status()
        yield served


def test_streams_end_with_their_key(server: Served) -> None:
    url = server.url
    key = make(url, "keys", name="page")
    seconds_until_end(url, key, lambda: revoke(url, "page"))
    assert httpx.get(f"{url}/v1/boards", headers={"authorization": f"Bearer {key}"}).is_error


def test_streams_of_tokens_end_with_the_key_that_issued_them(server: Served) -> None:
    url = server.url
    key = make(url, "keys", name="page")
    issued = httpx.post(
        f"{url}/v1/tokens",
        json={"boards": ["b"]},
        headers={**JSON, "authorization": f"Bearer {key}"},
    )
    seconds_until_end(url, issued.json()["token"], lambda: revoke(url, "page"))


def test_streams_end_when_their_token_expires(server: Served, now: list[int]) -> None:
    token = make(server.url, "tokens", boards=["b"], seconds=600)

    def leap() -> None:
        now[0] += 600_000

    seconds_until_end(server.url, token, leap)


def test_other_streams_continue(server: Served) -> None:
    url = server.url
    make(url, "keys", name="other")
    key = make(url, "keys", name="page")
    with httpx.stream("GET", f"{url}/v1/boards/b/live?interval=20", headers=ADMIN) as kept:
        lines = kept.iter_lines()
        assert any(line.startswith("event: top") for line in lines)
        seconds_until_end(url, key, lambda: revoke(url, "page"))
        event = {"member": "ann", "value": 1}
        httpx.post(f"{url}/v1/boards/b/scores", json=event, headers=ADMIN).raise_for_status()
        assert any(line.startswith("event: change") for line in lines)


def test_streams_end_in_every_process_over_an_index_server() -> None:
    with Server() as redis:
        laurels.open(redis.url).close()
        with (
            Process(redis.url, LAURELS_ADMIN_KEY=ADMIN_KEY) as one,
            Process(redis.url, LAURELS_ADMIN_KEY=ADMIN_KEY) as two,
        ):
            httpx.put(f"{one.url}/v1/boards/b", json={}, headers=ADMIN).raise_for_status()
            key = make(one.url, "keys", name="page")
            took = seconds_until_end(two.url, key, lambda: revoke(one.url, "page"))
            print(f"ended after {took:.2f} s")
            last = make(one.url, "keys", name="last")
            seconds_until_end(two.url, last, lambda: redis.call("FLUSHALL"))
