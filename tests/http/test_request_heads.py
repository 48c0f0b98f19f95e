"""The request heads that the server accepts, and the headers that every answer has."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.http.wire import Wire, answer_of, request
from tests.serving import Served

EVENT = b'{"member": "a", "value": 1}'
JSON = b"Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("boards")) as served:
        httpx.put(f"{served.url}/v1/boards/b", json={}).raise_for_status()
        yield served


@pytest.mark.parametrize("id_", ["1", "f00-7", "~" * 128])
def test_a_request_id_of_visible_ascii_is_taken(server: Served, id_: str) -> None:
    answer = httpx.get(f"{server.url}/v1/boards", headers={"x-request-id": id_})
    assert (answer.status_code, answer.headers["x-request-id"]) == (200, id_)


@pytest.mark.parametrize(
    "id_", [b"x" * 129, b"x" * 30_000, b"a b", b"a\tb", b"a\xffb", b"\xff\xfe"]
)
@pytest.mark.parametrize("target", [b"/v1/boards", b"/healthz", b"/nowhere"])
def test_any_other_request_id_is_refused_and_not_repeated(
    server: Served, id_: bytes, target: bytes
) -> None:
    answer = answer_of(server.url, "GET", target, headers=b"X-Request-Id: " + id_ + b"\r\n")
    assert (answer.status, answer.code) == (400, "invalid_request_id")
    assert len(answer.headers["x-request-id"]) < 64
    assert id_[:60] not in answer.body


def test_a_repeated_request_id_header_is_refused(server: Served) -> None:
    answer = answer_of(
        server.url, "GET", b"/v1/me", headers=b"X-Request-Id: a\r\nX-Request-Id: b\r\n"
    )
    assert (answer.status, answer.code) == (400, "invalid_request_id")


@pytest.mark.parametrize(
    "head",
    [
        JSON + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n",
        JSON + b"Authorization: Bearer \xff\r\n",
        JSON + b"Idempotency-Key: a\r\nIdempotency-Key: a\r\n",
        JSON + b"Idempotency-Key: \xc3\xa9\r\n",
        JSON + JSON,
        b"Content-Type: \xff\r\n",
    ],
)
def test_repeated_or_non_ascii_headers_are_refused(server: Served, head: bytes) -> None:
    answer = answer_of(server.url, "POST", b"/v1/boards/b/scores", EVENT, head)
    assert (answer.status, answer.code) == (400, "invalid_header")


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", b"/v1/boards", 200),
        ("GET", b"/v1/boards/b/top", 200),
        ("GET", b"/v1/boards/b/export", 200),
        ("GET", b"/v1/boards/none/top", 404),
        ("GET", b"/v1/boards/b/top?limit=x", 400),
        ("GET", b"/v1/nowhere", 404),
        ("BREW", b"/v1/boards", 405),
        ("GET", b"/healthz", 200),
        ("GET", b"/readyz", 200),
        ("GET", b"/metrics", 200),
    ],
)
def test_answers_forbid_caching_and_content_sniffing(
    server: Served, method: str, target: bytes, status: int
) -> None:
    answer = answer_of(server.url, method, target)
    assert answer.status == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def test_answers_to_writes_forbid_caching(server: Served) -> None:
    answer = answer_of(server.url, "POST", b"/v1/boards/b/scores", EVENT, JSON)
    assert answer.headers["cache-control"] == "no-store"


def test_a_page_can_be_revalidated_by_its_etag(server: Served) -> None:
    answer = answer_of(server.url, "GET", b"/docs")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_there_is_no_http_2_in_clear_text(server: Served) -> None:
    with Wire(server.url) as wire:
        wire.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
        answered = wire.rest()
    assert not answered.startswith(b"\0"), "the server sent HTTP/2 frames"
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAAAA\r\n"
    with Wire(server.url) as wire:
        assert wire.send(request("GET", b"/healthz", headers=upgrade)).answer().status == 200
