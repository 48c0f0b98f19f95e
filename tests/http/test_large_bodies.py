"""Large bodies are read in pieces, with the same result as small ones. A body that would be too
large after decoding is refused before it is decoded."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from laurels.engine.batch.outline import outline_json
from laurels.model.exact_json import MAX_DIGITS
from laurels.server.requests.bodies import SMALL
from laurels.server.requests.decoding import BODY_VALUES, EVENT_VALUES, PIECE_BYTES
from laurels.wire import requests
from tests.serving import Served

JSON, MSGPACK, NDJSON = "application/json", "application/msgpack", "application/x-ndjson"
SCORES, MEMBERS = "/v1/boards/b/scores", "/v1/boards/b/standings"


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with Served(tmp_path_factory.mktemp("boards")) as server:  # noqa: SIM117
        with httpx.Client(base_url=server.url, timeout=60) as client:
            client.put("/v1/boards/b", json={}).raise_for_status()
            yield client


def post(http: httpx.Client, path: str, content: bytes, kind: str = JSON) -> httpx.Response:
    return http.post(path, content=content, headers={"content-type": kind})


def body_of(kind: str, events: list[Any]) -> bytes:
    if kind == MSGPACK:
        return msgspec.msgpack.encode(events)
    if kind == NDJSON:
        return msgspec.json.Encoder().encode_lines(events)
    return json.dumps(events, indent=1).encode()


@pytest.mark.parametrize("kind", [JSON, MSGPACK, NDJSON])
def test_a_large_batch_is_read_as_many_small_ones_are(http: httpx.Client, kind: str) -> None:
    events: list[Any] = [
        {"member": f"{kind}-{i % 700}-{'é' * 30}", "value": i, "labels": None} for i in range(3_000)
    ]
    events[1_500] = {"member": "", "value": 1}
    events[2_000] = "no event"
    events[2_001] = {"member": f"{kind}-pair", "value": [7]}
    body = body_of(kind, events)
    assert len(body) > SMALL
    whole = post(http, f"{SCORES}?receipts=refused", body, kind).json()
    assert (whole["applied"], whole["refused"]) == (2_998, 2)
    assert whole["places"] == [1_500, 2_000]
    for i in (0, 2_001, 2_999):
        member = events[i]["member"]
        expected = sum(
            each["value"] if isinstance(each["value"], int) else 7
            for each in events
            if isinstance(each, dict) and each["member"] == member
        )
        answer = http.get("/v1/boards/b/standing", params={"member": member}).json()
        assert answer["score"] == expected


def test_events_of_several_boards_are_read_in_pieces(http: httpx.Client) -> None:
    events = [{"board": "b", "member": f"several-{i}", "value": 1} for i in range(3_000)]
    answer = post(http, "/v1/scores", body_of(JSON, events)).json()
    assert answer["applied"] == 3_000


def test_members_of_a_large_body_are_found(http: httpx.Client) -> None:
    post(http, SCORES, b'{"member": "friend", "value": 1}').raise_for_status()
    names = [f"nobody-{i}-{'x' * 20}" for i in range(4_000)] + ["friend"]
    for body in (json.dumps(names), json.dumps({"members": names})):
        assert len(body) > SMALL
        page = post(http, MEMBERS, body.encode()).json()
        assert [entry["member"] for entry in page["entries"]] == ["friend"]
        ranks = post(http, "/v1/boards/b/ranks", body.encode()).json()["ranks"]
        assert (ranks[:-1], ranks[-1]) == ([None] * 4_000, page["entries"][0]["rank"])


def test_only_pieces_are_decoded_and_never_by_the_thread_of_the_loop(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[int, str]] = []
    events = requests.events

    def watched(raw: bytes, kind: str) -> tuple[list[Any], bool]:
        read.append((len(raw), threading.current_thread().name))
        return events(raw, kind)

    monkeypatch.setattr(requests, "events", watched)
    body = body_of(JSON, [{"member": f"piece-{i}", "value": i} for i in range(10_000)])
    post(http, SCORES, body).raise_for_status()
    assert len(read) > len(body) // (2 * PIECE_BYTES)
    assert max(nbytes for nbytes, _ in read) < 2 * PIECE_BYTES
    assert all(name.startswith("decoder") for _, name in read)


MIB = 1 << 20
EXPANDING = {
    "empty lists": (SCORES, JSON, b"[" + b"[]," * (8 * MIB // 3 - 10) + b"[]]", "batch_too_long"),
    "numbers": (SCORES, JSON, b"[" + b"1," * (4 * MIB - 10) + b"1]", "batch_too_long"),
    "lines": (SCORES, NDJSON, b"1\n" * (4 * MIB), "batch_too_long"),
    "packed lists": (
        SCORES,
        MSGPACK,
        b"\xdd" + (8 * MIB - 5).to_bytes(4, "big") + b"\x90" * (8 * MIB - 5),
        "batch_too_long",
    ),
    "one event of many": (
        SCORES,
        JSON,
        b'{"member":"a","value":[' + b"[]," * (2 * MIB) + b"1]}",
        "too_many_values",
    ),
    "an event of many among others": (
        SCORES,
        JSON,
        b'[["a",1],["b",[' + b"1," * MIB + b"1]]]",
        "too_many_values",
    ),
    "a packed event of many": (
        SCORES,
        MSGPACK,
        b"\x91\xdd\x00\x10\x00\x00" + b"\x90" * MIB,
        "too_many_values",
    ),
    "events of many": (
        SCORES,
        JSON,
        b"[" + b",".join([b'["a",[' + b"1," * 900 + b"1]]"] * 600) + b"]",
        "too_many_values",
    ),
    "lines of many": (SCORES, NDJSON, (b"[" + b"[]," * 900 + b"1]\n") * 600, "too_many_values"),
    "packed events of many": (
        SCORES,
        MSGPACK,
        b"\xdc" + (8_000).to_bytes(2, "big") + (b"\xdc\x03\xe7" + b"\x90" * 999) * 8_000,
        "too_many_values",
    ),
    "events of boards of many": (
        "/v1/scores",
        JSON,
        b"[" + b",".join([b"[" + b"[]," * 900 + b"1]"] * 600) + b"]",
        "too_many_values",
    ),
    "deep": (SCORES, JSON, b"[" * (8 * MIB), "json_too_deep"),
    "of boards": ("/v1/scores", JSON, b"[" + b"[]," * MIB + b"[]]", "batch_too_long"),
    "members": (MEMBERS, JSON, b"[" + b'"",' * MIB + b'""]', "too_many_values"),
    "entries": (
        "/v1/boards/b/mend",
        JSON,
        b'{"rankings":[' + b"1.5," * 100_000 + b"1.5]}",
        "too_many_values",
    ),
    "packed entries": (
        "/v1/boards/b/mend",
        MSGPACK,
        b"\xdd\x00\x00\xea\x60" + b"\x92\x90\x90" * 60_000,
        "too_many_values",
    ),
    "members of lists": (MEMBERS, JSON, b'{"members":[' + b"[]," * MIB + b"1]}", "too_many_values"),
}


@pytest.mark.parametrize("kind", EXPANDING)
def test_expanding_bodies_are_refused_before_decoding(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path, content_type, body, code = EXPANDING[kind]

    def decoded(raw: bytes, _: str) -> Any:
        pytest.fail(f"{len(raw):,} bytes were decoded")

    monkeypatch.setattr(requests, "events", decoded)
    monkeypatch.setattr(requests, "document", decoded)
    answer = post(http, path, body, content_type)
    status = 400 if code == "json_too_deep" else 413
    assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        (JSON, b"["),
        (JSON, b'["a'),
        (JSON, b"1]]"),
        (JSON, b"[1,]"),
        (NDJSON, b'{"member"'),
        (MSGPACK, b"\xc1"),
        (MSGPACK, b"\xdd\xff\xff\xff\xff"),
    ],
)
def test_a_large_malformed_body_is_refused(http: httpx.Client, kind: str, broken: bytes) -> None:
    events = body_of(kind, [[f"broken-{i}", 1] for i in range(5_000)])
    if kind == JSON:
        events = events.removesuffix(b"]") + b"," + broken
    answer = post(http, SCORES, events + broken if kind != JSON else events, kind)
    assert answer.status_code == 400
    assert answer.json()["code"] == ("invalid_msgpack" if kind == MSGPACK else "invalid_json")
    gone = http.get("/v1/boards/b/standing", params={"member": "broken-0"})
    assert gone.status_code == 404


def test_a_decode_error_names_its_position_in_the_whole_body(http: httpx.Client) -> None:
    body = b"[" + b'["%b",1],' % (b"a" * 100) * 1_000 + b"nonsense]"
    with pytest.raises(msgspec.DecodeError) as whole:
        msgspec.json.decode(body)
    assert post(http, SCORES, body).json()["what"] == str(whole.value)


@pytest.mark.parametrize(
    ("method", "path", "most"),
    [
        ("PUT", "/v1/boards/big", 64 << 10),
        ("PATCH", "/v1/boards/b", 64 << 10),
        ("POST", "/v1/boards/b/set", 16 << 10),
        ("PUT", "/v1/boards/b/data", 16 << 10),
        ("POST", "/v1/boards/b/remove", 16 << 10),
        ("POST", "/v1/keys", 16 << 10),
        ("POST", "/v1/tokens", 16 << 10),
        ("POST", "/v1/check", 16 << 10),
        ("POST", MEMBERS, 4 << 20),
        ("POST", "/v1/boards/b/ranks", 4 << 20),
        ("POST", SCORES, 8 << 20),
    ],
)
def test_every_endpoint_has_a_limit_that_fits_it(
    http: httpx.Client, method: str, path: str, most: int
) -> None:
    answer = http.request(method, path, content=b"x" * (most + 1), headers={"content-type": JSON})
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    assert f"{most:,}" in answer.json()["what"]


def test_an_event_may_have_all_the_values_it_needs() -> None:
    event = {
        "member": "m",
        "value": [1, 2, 3, 4],
        "at": 1,
        "id": "i",
        "labels": {f"label{i}": "v" for i in range(16)},
    }
    batch = json.dumps([event] * requests.MAX_BATCH).encode()
    assert outline_json(batch, EVENT_VALUES, PIECE_BYTES, most_in_all=BODY_VALUES)[0] == 0


@pytest.mark.parametrize(("length", "status"), [(MAX_DIGITS, 200), (MAX_DIGITS + 1, 400)])
def test_a_number_is_read_up_to_a_length(http: httpx.Client, length: int, status: int) -> None:
    number = b"1." + b"1" * (length - 2)
    answer = post(http, SCORES, b'[{"member":"long","value":%b}]' % number)
    assert answer.status_code == status
    if status == 400:
        assert answer.json()["code"] == "value_out_of_range"
    else:
        assert answer.json()["refused"] == 1, (
            "the body is accepted, and the board refuses the event"
        )
