"""Malformed and hostile requests, written by hand. None of them makes the server fail."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

from tests.serving import Served

JSON = {"content-type": "application/json"}
EVENT = b'{"member": "a", "value": 1}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("boards"), max_body=1 << 20) as served:
        httpx.put(f"{served.url}/v1/boards/b", json={}).raise_for_status()
        yield served


def raw(server: Served, request: bytes, *, ends: bool = True) -> bytes:
    """Send bytes that no client library would send. Return the first bytes of the answer."""
    parts = urlsplit(server.url)
    with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=60) as opened:
        opened.sendall(request)
        if not ends:
            return b""
        return opened.recv(4_096)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/boards/%FF/top", 400),
        ("/v1/boards/b/top?limit=%FF", 400),
        ("/v1/boards/b/top?limit=5&limit=6", 400),
        ("/v1/boards/b/top?limit", 400),
        ("/v1/boards/b/top?limit=99999999999999999999999999", 400),
        ("/v1/boards/b/top?limit=-1", 400),
        ("/v1/boards/b/standing?member=", 400),
        ("/v1/boards/b/standing?member=" + "x" * 129, 400),
        ("/v1/boards/b/standing?member=%00", 404),
        ("/v1/boards/b/range?low=1e999999999", 400),
        ("/v1/boards/b/range?low=nan", 400),
        ("/v1/boards/b/percentile?percent=inf", 400),
        ("/v1/boards/b/top?after=%F0%9F%98%80", 400),
        ("/v1/boards/b/top?" + "x" * 9_000, 414),
        ("/v1/boards/../../etc/passwd", 404),
        ("//", 404),
        ("/static/none.js", 404),
    ],
)
def test_nasty_addresses_get_the_expected_status(server: Served, path: str, status: int) -> None:
    head = raw(
        server, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    )
    assert head.startswith(f"HTTP/1.1 {status}".encode()), head[:300]


@pytest.mark.parametrize(
    ("body", "content_type", "status", "code"),
    [
        (b"", "application/json", 400, "invalid_json"),
        (b"null", "application/json", 400, "invalid_body"),
        (b'{"member": "a", "value": NaN}', "application/json", 400, "invalid_json"),
        (b'{"member": "a", "value": Infinity}', "application/json", 400, "invalid_json"),
        (b'{"member": "a", "value": 1e999999999}', "application/json", 422, None),
        (b'{"member": "a", "value": %s}' % (b"9" * 5_000), "application/json", None, None),
        (b'{"member": "a", "value": 0.5}', "application/json", 422, "too_many_places"),
        (b'{"member": "\\ud800", "value": 1}', "application/json", None, None),
        (b'{"member": "a\xff", "value": 1}', "application/json", 400, "invalid_json"),
        (b'{"member": "", "value": 1}', "application/json", 422, "member_empty"),
        (b'{"value": 1}', "application/json", 422, "invalid_event"),
        (b'{"member": "a", "value": 1, "more": 1}', "application/json", 422, "invalid_event"),
        (b'{"member": "a", "value": [1, 2]}', "application/json", 422, "wrong_columns"),
        (b'{"member": "a", "value": 1, "at": "noon"}', "application/json", 422, "invalid_at"),
        (b"[" * 100_000, "application/json", 400, None),
        (b"[" + b",".join([EVENT] * 10_001) + b"]", "application/json", 413, "batch_too_long"),
        (b"x" * ((1 << 20) + 1), "application/json", 413, "body_too_large"),
        (b"\xc1\xff", "application/msgpack", 400, "invalid_msgpack"),
        (b"\x91" * 100_000, "application/msgpack", 400, None),
        (msgspec.msgpack.encode({"member": "a", "value": 0.5}), "application/msgpack", 422, None),
        (EVENT, "text/plain", 415, "unsupported_media_type"),
        (EVENT, "image/png; charset=x", 415, "unsupported_media_type"),
        (b"\n\n\n", "application/x-ndjson", 200, None),
        (EVENT + b"\n{", "application/x-ndjson", 400, "invalid_json"),
    ],
)
def test_nasty_bodies_cause_no_server_error(
    server: Served, body: bytes, content_type: str, status: int | None, code: str | None
) -> None:
    answer = httpx.post(
        f"{server.url}/v1/boards/b/scores", content=body, headers={"content-type": content_type}
    )
    assert 200 <= answer.status_code < 500
    assert status in (None, answer.status_code), answer.text
    if answer.status_code != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        assert code in (None, answer.json()["code"]), answer.text


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: \xff\xfe\r\n\r\n",
        b"GET /v1/boards HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\r\n\r\n",
        b"POST /v1/boards/b/scores HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/boards/b/scores HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"BREW /v1/boards HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
def test_nasty_request_heads_cause_no_server_error(server: Served, request_: bytes) -> None:
    try:
        head = raw(server, request_)
    except (ConnectionError, TimeoutError):
        head = b""
    assert not head.startswith(b"HTTP/1.1 5"), head[:300]
    assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_a_body_in_chunks_is_bounded_too(server: Served) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(40):
            yield b"x" * 65_536

    try:
        answer = httpx.post(
            f"{server.url}/v1/boards/b/scores", content=parts(), headers=JSON, timeout=60
        )
    except httpx.HTTPError:
        pass  # the server has refused the request before it was complete
    else:
        assert answer.json()["code"] == "body_too_large"
    assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_a_body_cut_off_by_the_client_counts_nothing(server: Served) -> None:
    before = httpx.get(f"{server.url}/v1/boards/b/stats").json()["windows"][0]["members"]
    raw(
        server,
        b"POST /v1/boards/b/scores HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n"
        b'[{"member": "gone", "value": 1}',
        ends=False,
    )
    after = httpx.get(f"{server.url}/v1/boards/b/stats").json()["windows"][0]["members"]
    assert after == before
