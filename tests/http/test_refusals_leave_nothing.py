"""A refused request leaves no objects that only the garbage collector could free."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from laurels.server.requests.context import RequestContext
from laurels.wire.answers import drop_frames
from tests.http.process import Process
from tests.serving import Served

JSON, MSGPACK, NDJSON = "application/json", "application/msgpack", "application/x-ndjson"
SCORES, LISTS = "/v1/boards/b/scores", "/v1/boards/b/standings"
LONG = b"x" * 1_000

REFUSED: dict[str, tuple[str, str, str, bytes]] = {
    "broken JSON": ("POST", SCORES, JSON, b'[{"member": "%b' % LONG),
    "broken NDJSON": ("POST", SCORES, NDJSON, b'{"member": "%b"\n{' % LONG),
    "broken msgpack": ("POST", SCORES, MSGPACK, b"\xc1" + LONG),
    "not UTF-8": ("POST", SCORES, JSON, b'{"member": "\xff%b", "value": 1}' % LONG),
    "too deep": ("POST", SCORES, JSON, b"[" * 5_000),
    "a long number": ("POST", SCORES, JSON, b'{"member": "a", "value": %b}' % (b"9" * 5_000)),
    "neither event nor list": ("POST", SCORES, JSON, b'"%b"' % LONG),
    "too many events": ("POST", SCORES, JSON, b"[" + b",".join([b"1"] * 10_001) + b"]"),
    "a refused event": ("POST", SCORES, JSON, b'{"member": "%b", "value": 1}' % LONG),
    "a refused atomic batch": (
        "POST",
        f"{SCORES}?all_or_nothing=true",
        JSON,
        b'[{"member": "%b", "value": 1}]' % LONG,
    ),
    "another media type": ("POST", SCORES, "text/plain", LONG),
    "no such board": ("POST", "/v1/boards/none/scores", JSON, b'{"member": "a", "value": 1}'),
    "no such board in a batch": ("POST", "/v1/boards/none/scores", JSON, b'[["a", 1], ["b", 1]]'),
    "boards that are not there": (
        "POST",
        "/v1/scores",
        JSON,
        b'[{"board": "none", "member": "a", "value": 1}]',
    ),
    "a wrong query": ("POST", f"{SCORES}?window=none", JSON, b'{"member": "a", "value": 1}'),
    "an unknown parameter": ("POST", f"{SCORES}?no=1", JSON, b'{"member": "a", "value": 1}'),
    "members that are none": ("POST", LISTS, JSON, msgspec.json.encode([[1], [2]] * 50)),
    "an unknown label": ("POST", f"{LISTS}?labels=zone=x", JSON, b'["a"]'),
    "a wrong definition": ("PUT", "/v1/boards/c", JSON, b'{"tie": "none"}'),
    "a set that is refused": ("POST", "/v1/boards/b/set", JSON, b'{"member": "", "value": 1}'),
    "data that are too large": (
        "PUT",
        "/v1/boards/b/data",
        JSON,
        b'{"member": "a", "data": "%b%b"}' % (LONG, LONG),
    ),
    "a wrong key": ("POST", "/v1/keys", JSON, b'{"name": "a", "scope": "none"}'),
    "a wrong idempotency key": ("POST", SCORES, JSON, b'{"member": "b", "value": "x"}'),
}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with Served(tmp_path_factory.mktemp("boards")) as server:  # noqa: SIM117
        with httpx.Client(base_url=server.url, timeout=60) as client:
            client.put("/v1/boards/b", json={}).raise_for_status()
            gc.collect()
            gc.freeze()  # scanning the objects of all other tests would take too long
            yield client


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("keyed", [False, True], ids=["", "with an idempotency key"])
def test_a_refused_request_leaves_no_garbage_cycles(
    http: httpx.Client, kind: str, keyed: bool
) -> None:
    method, path, content_type, body = REFUSED[kind]
    headers = {"content-type": content_type}
    gc.collect()
    gc.disable()
    try:
        for attempt in range(5):
            if keyed:
                headers["idempotency-key"] = f"{kind.replace(' ', '-')}-{attempt}"
            answer = http.request(method, path, content=body, headers=headers)
            assert 400 <= answer.status_code < 500, answer.text
        # The server does some work after it has answered a request. This work has been done by the
        # time that it answers later requests.
        for _ in range(3):
            http.get("/healthz")
        left = [each for each in gc.get_objects() if isinstance(each, RequestContext)]
        assert len(left) == 0
    finally:
        gc.enable()


def _rss_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in status if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1_024


def _refused_bodies(nbytes: int) -> list[tuple[str, str, bytes]]:
    """Return bodies of this size that the server refuses, each with its path and its content
    type."""
    member = b'{"member":"%b","value":1}' % (b"x" * (nbytes - 40))
    lists = b"[" + b",".join([b"[]"] * ((nbytes - 2) // 3)) + b"]"
    packed = b"\xdd" + (nbytes - 5).to_bytes(4, "big") + b"\x90" * (nbytes - 5)
    deep = b"[" * nbytes
    return [
        (SCORES, JSON, member),
        (SCORES, JSON, lists),
        (SCORES, MSGPACK, packed),
        (SCORES, JSON, deep),
        (SCORES, NDJSON, b"1\n" * (nbytes // 2)),
        (LISTS, JSON, lists),
        ("/v1/scores", JSON, lists),
        ("/v1/boards/b/set", JSON, member),
    ]


@pytest.mark.parametrize(
    "rounds", [2, pytest.param(125, marks=pytest.mark.torture, id="1000 requests")]
)
def test_refused_bodies_leave_no_memory_in_use(tmp_path: Path, rounds: int) -> None:
    bodies = _refused_bodies(8 << 20)
    with Process(tmp_path) as server, httpx.Client(base_url=server.url, timeout=60) as http:
        http.put("/v1/boards/b", json={}).raise_for_status()

        def refused_once() -> None:
            for path, content_type, body in bodies:
                try:
                    answer = http.post(path, content=body, headers={"content-type": content_type})
                except httpx.TransportError:  # refused for its length before all of it was sent
                    continue
                assert 400 <= answer.status_code < 500, answer.text

        refused_once()
        before = _rss_mib(server.pid)
        for _ in range(rounds):
            refused_once()
        assert _rss_mib(server.pid) < before + 50


def test_chained_errors_keep_no_frames() -> None:
    errors = [ValueError("one"), KeyError("two"), OSError("three")]
    for error, cause in zip(errors, [*errors[1:], errors[0]], strict=True):
        try:
            raise error from cause
        except Exception:
            error.__context__ = error
    drop_frames(errors[0])
    assert [error.__traceback__ for error in errors] == [None] * 3
